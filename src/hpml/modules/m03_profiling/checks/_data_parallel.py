"""The program of a data parallel training, for the simulator of `_planted_ranks.py`.

Its marks and ops have the names that PyTorch 2.13 records with DistributedDataParallel on CPUs.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from hpml.modules.m03_profiling.checks._planted_ranks import (
    Begin,
    End,
    Idle,
    Item,
    Launch,
    Op,
    Program,
    Wait,
)

AUTOGRAD = "autograd::engine::evaluate_function: "
GRADIENT = "torch::autograd::AccumulateGrad"
LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
# Marks around backward, around loading, and around the wait for the last collective: no phase, no
# collective and no operator, though their names hold words of these
RECOMPUTE, HOOKS, BEHIND = "forward_recompute", "hooks of gloo: or nccl:", "wait behind aten::mm"
Work = Mapping[str, int]  # microseconds of a rank's own work, by phase


@dataclass(frozen=True)
class Training:
    """What is done in each step. Every rank has the same steps, layers and buckets."""

    work: Mapping[tuple[int, int], Work]  # by (rank, place of the step)
    transfers: tuple[int, ...]  # microseconds, of each bucket, in the order of their launch
    first: int = 0  # number of the first step
    layers: int = 6
    micro_batches: int = 1  # forward and backward passes in a step
    # Of `work`, what a late rank does more: in the micro-batch in the middle
    more: Mapping[tuple[int, int], Work] = field(default_factory=dict)
    overlaps: bool = True  # else buckets are launched, and waited for, when backward has ended
    sync: int = 0  # that of a broadcast at the beginning of each forward, which is waited for
    buffers: int = 0  # that of a broadcast at the end of each step, which is waited for
    averages: int = 0  # that of one which is waited for in the next step's backward
    lead: float = 0.0  # share of a node of autograd's for which no operator in it runs yet
    gaps: bool = False  # between nodes of backward, with no op on any thread
    hooks: bool = False  # wait for buckets in autograd's nodes, where `more` of backward is spent
    pool: bool = False  # transforms run on a second thread, for which the main thread waits
    beside: bool = False  # ops on a second thread, through the phases
    before: bool = False  # collectives and ops before the first step, and between steps


def parts(draw: random.Random, total: int, count: int) -> list[int]:
    """`total` in `count` whole parts of similar size."""
    weights = [draw.uniform(0.7, 1.3) for _ in range(count)]
    cuts = [round(total * sum(weights[:k]) / sum(weights)) for k in range(count + 1)]
    return [end - begin for begin, end in pairwise(cuts)]


def program(seed: int, plan: Training) -> Program:
    """Each rank's items, for `planted_ranks.play`."""

    def of(rank: int) -> Iterator[Item]:
        draw = random.Random(f"{seed} {rank}")
        steps = 1 + max(step for _, step in plan.work)
        if plan.before:
            yield Op("aten::randn", draw.randint(2000, 4000))
            yield from _call("broadcast", 3000, draw)
        for step in range(steps):
            yield Begin(f"ProfilerStep#{plan.first + step}")
            more = plan.more.get((rank, step), {})
            yield from _step(plan, plan.work[rank, step], more, draw, last=step == steps - 1)
            yield End()
            yield Idle(draw.randint(20, 60))
            if plan.before:
                yield Op("aten::argmax", draw.randint(500, 900))
                yield from _call("all_reduce", 1500, draw)

    return of


def _call(name: str, transfer: int, draw: random.Random) -> Iterator[Item]:
    """A collective by itself that is waited for. Its op may take long: the rank is preempted."""
    yield from _launch(name, transfer, draw.randint(transfer // 3, transfer // 2))
    yield Wait()


def _launch(name: str, transfer: int, call: int, *, waits: bool = False) -> Iterator[Item]:
    """An op of `c10d` launches a collective, half way through `call` microseconds of its own.

    It may be one that `waits` until the collective has ended.
    """
    short = {"all_reduce": "allreduce_", "broadcast": "broadcast_"}[name]
    yield from [Begin(f"c10d::{short}", op=True), Idle(call // 2), Launch(name, transfer)]
    if waits:
        yield Wait()
    yield from [Idle(call - call // 2), End()]


def _bucket(transfer: int, call: int, *, waits: bool) -> Iterator[Item]:
    """A node of autograd's with a hook that launches the all-reduce of a bucket."""
    yield from [Begin(f"{AUTOGRAD}{GRADIENT}", op=True), Begin(GRADIENT, op=True), Idle(5)]
    yield from _launch("all_reduce", transfer, call, waits=waits)
    yield from [Idle(5), End(), End()]


def _step(
    plan: Training, work: Work, more: Work, draw: random.Random, *, last: bool
) -> Iterator[Item]:
    collate = work["loading"] // 3
    yield from [Begin("loading"), Begin(HOOKS), Begin(LOADER), Idle(work["loading"] - collate)]
    yield from [Op("aten::stack", collate), End(), End(), End()]
    for number in range(plan.micro_batches):
        part = {
            phase: (us - more.get(phase, 0)) // plan.micro_batches
            + (more.get(phase, 0) if number == plan.micro_batches // 2 else 0)
            for phase, us in work.items()
        }
        yield Begin("transforms")
        for name in ("aten::sub", "aten::mul"):
            yield Op(name, part["transforms"] // 2, thread=int(plan.pool))
            if plan.pool:
                yield Idle(part["transforms"] // 2)
        yield End()
        yield Begin("forward")
        yield Begin("DistributedDataParallel.forward")
        if plan.sync:
            yield from _call("broadcast", plan.sync, draw)
        if plan.beside:
            yield Op("aten::copy_", part["forward"] // 2, thread=1)
        for duration in parts(draw, part["forward"], plan.layers):
            yield Op("aten::linear", duration, ("aten::t", "aten::addmm"))
        yield from [End(), End()]
        yield from [Begin("backward"), Begin(RECOMPUTE)]
        final = number == plan.micro_batches - 1
        calls = more.get("backward", 0) if plan.hooks else 0
        yield from _backward(plan, part["backward"] - calls, calls, draw, buckets=final)
        yield from [End(), End()]
    yield Begin("optimizer")
    yield Begin("Optimizer.step#SGD.step")
    yield Op("aten::_foreach_add_", work["optimizer"], ("aten::add_", "aten::mul_"))
    yield from [End(), End()]
    if plan.buffers:
        yield from _call("broadcast", plan.buffers, draw)
    if plan.averages:
        yield from _launch("all_reduce", plan.averages, 20)
        if last:
            yield Wait()


def _backward(
    plan: Training, work: int, calls: int, draw: random.Random, *, buckets: bool
) -> Iterator[Item]:
    """`work` in layers, and `calls` more in those ops that launch the buckets; microseconds."""
    left = list(plan.transfers) if buckets else []
    if plan.beside:
        yield Op("aten::copy_", draw.randint(work, work * 5 // 4), thread=1)
    for number, duration in enumerate(parts(draw, work, plan.layers), 1):
        lead = round(plan.lead * duration)
        yield from [Begin(f"{AUTOGRAD}AddmmBackward0", op=True), Idle(lead)]
        yield Begin("AddmmBackward0", op=True)
        yield Op("aten::matmul", duration - lead, ("aten::t", "aten::mm"))
        yield from [End(), End()]
        if plan.gaps:
            yield Idle(draw.randint(duration // 4, duration // 2))
        due = len(plan.transfers) * (plan.layers - number) // plan.layers
        while plan.overlaps and len(left) > due:
            call = draw.randint(10, 60) + calls // len(plan.transfers)
            yield from _bucket(left.pop(0), call, waits=plan.hooks)
    if buckets:
        while left:
            yield from _call("all_reduce", left.pop(0), draw)
        yield from [Begin(BEHIND), Wait(), End()]
        yield Op("torch.distributed.ddp.reducer::copy_bucket_to_grad", draw.randint(20, 60))
