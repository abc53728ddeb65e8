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
LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
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
    buffers: int = 0  # that of a broadcast at the end of each step, which is waited for
    averages: int = 0  # that of one which is waited for in the next step's backward
    gaps: bool = False  # between ops of backward, with no op on any thread
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
    yield Launch(name, transfer, draw.randint(transfer // 3, transfer // 2), inside="")
    yield Wait()


def _step(
    plan: Training, work: Work, more: Work, draw: random.Random, *, last: bool
) -> Iterator[Item]:
    yield from [Begin("loading"), Begin(LOADER), Idle(work["loading"]), End(), End()]
    for number in range(plan.micro_batches):
        part = {
            phase: (us - more.get(phase, 0)) // plan.micro_batches
            + (more.get(phase, 0) if number == plan.micro_batches // 2 else 0)
            for phase, us in work.items()
        }
        yield Begin("transforms")
        for name in ("aten::sub", "aten::mul"):
            yield Op(name, part["transforms"] // 2)
        yield End()
        yield Begin("forward")
        yield Begin("DistributedDataParallel.forward")
        if plan.beside:
            yield Op("aten::copy_", part["forward"] // 2, thread=1)
        for duration in parts(draw, part["forward"], plan.layers):
            yield Op("aten::linear", duration, ("aten::t", "aten::addmm"))
        yield from [End(), End()]
        yield Begin("backward")
        final = number == plan.micro_batches - 1
        yield from _backward(plan, part["backward"], draw, buckets=final)
        yield End()
    yield Begin("optimizer")
    yield Begin("Optimizer.step#SGD.step")
    yield Op("aten::_foreach_add_", work["optimizer"], ("aten::add_", "aten::mul_"))
    yield from [End(), End()]
    if plan.buffers:
        yield from _call("broadcast", plan.buffers, draw)
    if plan.averages:
        yield Launch("all_reduce", plan.averages, inside="")
        if last:
            yield Wait()


def _backward(plan: Training, work: int, draw: random.Random, *, buckets: bool) -> Iterator[Item]:
    left = list(plan.transfers) if buckets else []
    if plan.beside:
        yield Op("aten::copy_", draw.randint(work, work * 5 // 4), thread=1)
    for number, duration in enumerate(parts(draw, work, plan.layers), 1):
        yield Op(f"{AUTOGRAD}AddmmBackward0", duration, ("AddmmBackward0", "aten::mm"))
        if plan.gaps:
            yield Idle(draw.randint(duration // 4, duration // 2))
        due = len(plan.transfers) * (plan.layers - number) // plan.layers
        while plan.overlaps and len(left) > due:
            yield Launch("all_reduce", left.pop(0), draw.randint(10, 60))
    if buckets:
        while left:
            yield from _call("all_reduce", left.pop(0), draw)
        yield Wait()
        yield Op("torch.distributed.ddp.reducer::copy_bucket_to_grad", draw.randint(20, 60))
