"""An all-reduce timed over a slow link, beside messages that are known to use the link well.

Functions are imported by name: they come to the ranks by value, and before the answer, which may
replace them in their modules.
"""

from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import barrier, irecv, isend

from hpml.checks.budget import each_elapsed
from hpml.ranks import mark
from hpml.ranks.evidence import Call, Evidence, RankEvidence

TIMED, KNOWN = ("ring", "ring done"), ("messages", "messages done")  # marks
IN_A_ROW = 3  # tensors between two marks, one after the other
MOST_TIMES = 4  # that it is timed where it was slow: a busy machine may have been why
ENOUGH = 1.15  # times the known good messages; not timed again below
CALM = 1.5  # times the bound; where the known good messages take more, the machine is busy


def time_beside_messages(
    all_reduce: Callable[[torch.Tensor], Any], given: torch.Tensor, bound: float | None
) -> list[torch.Tensor]:
    """On a rank: set the marks TIMED and KNOWN, in turns, until it is clear which is faster.

    `bound` is in seconds, for IN_A_ROW tensors like `given`; without one, nothing is done. Returns
    the tensors that `all_reduce` was given, one after the other; as many went round for comparison.
    """
    done, times = [], []
    while bound is not None and is_unclear(times, bound):
        known = timed(KNOWN, pass_round, [given.clone()] * IN_A_ROW)
        more = [given.clone() for _ in range(IN_A_ROW)]
        times.append([known, timed(TIMED, all_reduce, more)])
        done += more
    return done


def is_unclear(times: list[list[float]], bound: float) -> bool:
    """Whether to time again. What the slowest rank has seen decides for all."""
    if not times:
        return True
    known, took = (min(each) for each in zip(*times, strict=True))
    seen = torch.tensor([took / max(known, bound) > ENOUGH, known / bound > CALM]).int()
    dist.all_reduce(seen, dist.ReduceOp.MAX)
    slow, busy = seen.tolist()
    return len(times) < (MOST_TIMES if slow else 2 if busy else 0)


def timed(
    marks: tuple[str, str], work: Callable[[torch.Tensor], Any], tensors: list[torch.Tensor]
) -> float:
    """This rank's seconds."""
    barrier()
    started = perf_counter()
    mark(marks[0])
    for tensor in tensors:
        work(tensor)
    mark(marks[1])
    return perf_counter() - started


def pass_round(tensor: torch.Tensor) -> None:
    """The known good way to use the links: as many messages, as long ones, with nothing done."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    part = tensor[: len(tensor) // world_size]
    arrived = torch.empty_like(part)
    for _ in range(2 * (world_size - 1)):
        receive = irecv(arrived, (rank - 1) % world_size)
        send = isend(part, (rank + 1) % world_size)
        receive.wait()
        send.wait()


def own_calls(rank: RankEvidence) -> list[Call]:
    """The answer's calls: those of the drive come from no line of it."""
    return [call for call in rank.calls if call.line is not None]


def slow_because(ranks: tuple[RankEvidence, ...]) -> str:
    """The hint for links that were not busy all the time: how each rank's first two calls go."""
    found = set()
    for rank in ranks:
        begins = next(mark.at for mark in rank.marks if mark.name == TIMED[0])
        calls = [call for call in own_calls(rank) if call.issued >= begins][:2]
        if len(calls) == 2 and {call.operation for call in calls} == {"send", "recv"}:
            first, second = calls
            one_by_one = first.finished is not None and first.finished <= second.issued
            found.add("turns" if one_by_one else "late" if first.operation == "send" else "slow")
    return next((hint for hint in ("turns", "late") if hint in found), "slow")


def was_busy(evidence: Evidence, bound: float) -> bool:
    """Whether the known good messages were slow as well, now and then or always."""
    return max(each_elapsed(evidence, KNOWN)) > CALM * bound
