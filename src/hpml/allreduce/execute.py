"""Schedules, run over torch.distributed's send and recv."""

import os
from collections.abc import Iterator

import torch
import torch.distributed as dist

from hpml.allreduce.algorithms import schedule
from hpml.allreduce.transfers import Schedule

LARGE = 1 << 20  # bytes; below, twice as many messages cost more than an idle link does

# By algorithm, ranks and ranks of a node. Not functools.cache: what that makes cannot be sent to a
# rank by value.
_schedules: dict[tuple[str, int, int | None], Schedule] = {}


def all_reduce(tensor: torch.Tensor, algorithm: str, per_node: int | None = None) -> None:
    """`tensor`, of one shape and dtype on all ranks, becomes the sum over them. A collective.

    In place, over the default group, by the `algorithm` of that name in `ALGORITHMS`. Additions are
    in the tensor's dtype, in an order of the algorithm's own: each element has the same sum on all
    ranks, and other algorithms' sums may differ from it by rounding. `per_node` is how many ranks a
    node has, for "hierarchical"; default: LOCAL_WORLD_SIZE, or else all.

    Raises UserError as `schedule` does.
    """
    if per_node is None:
        per_node = int(os.environ.get("LOCAL_WORLD_SIZE", 0)) or None
    if algorithm != "hierarchical":
        per_node = None
    which = algorithm, dist.get_world_size(), per_node
    if which not in _schedules:
        _schedules[which] = schedule(*which)
    plan = _schedules[which]
    with torch.no_grad():
        flat = tensor.contiguous().view(-1)
        run(plan, flat)
        if not tensor.is_contiguous():
            tensor.copy_(flat.view(tensor.shape))


def run(plan: Schedule, flat: torch.Tensor) -> None:
    """Do this rank's part of `plan` on `flat`, which is contiguous and has one dimension.

    A large tensor is cut into halves that take turns: while the received parts of one are added up,
    those of the other are on their way, and the link is never idle.
    """
    halves = flat.chunk(2) if flat.nbytes >= LARGE else [flat]
    under_way = [_steps(plan, half) for half in halves]
    while under_way:
        under_way = [half for half in under_way if next(half, None)]


def _steps(plan: Schedule, flat: torch.Tensor) -> Iterator[bool]:
    """Post a step's messages, pause; when resumed, wait for them, add up, and go on to the next."""
    rank = dist.get_rank()
    cuts = plan.cuts(flat.numel())
    for step in plan.steps:
        receives, sends, sums = [], [], []
        for transfer in step:
            piece = flat[cuts[transfer.first] : cuts[transfer.last]]
            if piece.numel() == 0:  # both ends skip it
                continue
            if transfer.destination == rank:
                into = torch.empty_like(piece) if transfer.adds else piece
                receives.append(dist.P2POp(dist.irecv, into, transfer.source))
                if transfer.adds:
                    sums.append((piece, into))
            elif transfer.source == rank:
                sends.append(dist.P2POp(dist.isend, piece, transfer.destination))
        # All are posted before any rank waits, so that no order of ranks can deadlock. Over NCCL
        # the batch is one group call, without which sends would block.
        works = dist.batch_isend_irecv(receives + sends) if receives or sends else []
        yield True
        for work in works:
            work.wait()
        for piece, summand in sums:
            piece += summand
