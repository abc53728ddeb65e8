"""Schedules of a pipeline as data: which rank computes which micro-batch when, and what it costs.

With p ranks, m micro-batches and v chunks of the model on each rank:

| schedule         | idle share    | live micro-batches, rank r | source                       |
|------------------|---------------|----------------------------|------------------------------|
| GPipe            | (p-1)/(m+p-1) | m                          | Huang et al. 2019, 2.3       |
| 1F1B             | (p-1)/(m+p-1) | min(m, p-r)                | Narayanan et al. 2021, 2.2.1 |
| interleaved 1F1B | (p-1)/(vm+p-1) | more, each of 1/v the size | Narayanan et al. 2021, 2.2.2 |
| PipeDream        | 0 once full   | p-r, each with its weights | Narayanan et al. 2019, 3.3   |

Narayanan et al. 2021 give the bubble as a share of the computing time, (p-1)/m; here, as in GPipe,
it is a share of the whole time.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hpml.trace.computations import Computation, Kind


@dataclass(frozen=True)
class Pass:
    """One pass of one micro-batch through one chunk of a rank's layers."""

    kind: Kind
    micro_batch: int
    chunk: int = 0


@dataclass(frozen=True)
class Schedule:
    """What each rank computes, in its order: `orders[r]` is that of rank r.

    Rank r has `chunks` separate stages of the model: stage c · p + r is its chunk c.
    """

    name: str
    orders: tuple[tuple[Pass, ...], ...]
    chunks: int = 1


def bubble(ranks: int, micro_batches: int, chunks: int = 1) -> float:
    """The share of the time in which a rank idles, (p-1)/(v·m+p-1), if all stages take equal time.

    GPipe and 1F1B alike (Huang et al. 2019, section 2.3); with `chunks` v on each rank, interleaved
    (Narayanan et al. 2021, section 2.2.2).
    """
    return (ranks - 1) / (chunks * micro_batches + ranks - 1)


def gpipe(ranks: int, micro_batches: int) -> Schedule:
    """All forward passes, then all backward passes (Huang et al. 2019, GPipe, section 2.3)."""
    order = [Pass("forward", i) for i in range(micro_batches)]
    order += [Pass("backward", i) for i in range(micro_batches)]
    return Schedule("GPipe", (tuple(order),) * ranks)


def one_f_one_b(ranks: int, micro_batches: int) -> Schedule:
    """As few forward passes as the pipeline needs to be full, then backward and forward in turn.

    Rank r starts with p-r-1 forward passes (Narayanan et al. 2021, section 2.2.1: the schedule of
    PipeDream-Flush).
    """
    orders = [
        _alternating(min(ranks - rank - 1, micro_batches), micro_batches, 1, 1)
        for rank in range(ranks)
    ]
    return Schedule("1F1B", tuple(orders))


def interleaved(ranks: int, micro_batches: int, chunks: int = 2) -> Schedule:
    """1F1B with several smaller stages on each rank (Narayanan et al. 2021, section 2.2.2).

    Micro-batches go through a chunk in groups of p. Raises ValueError where `micro_batches` is not
    a multiple of `ranks`: the schedule needs that.
    """
    if micro_batches % ranks:
        raise ValueError(f"{micro_batches} micro-batches on {ranks} ranks: give a multiple")
    total = micro_batches * chunks
    orders = []
    for rank in range(ranks):
        first = total
        if micro_batches > ranks:
            first = min(2 * (ranks - rank - 1) + (chunks - 1) * ranks, total)
        orders.append(_alternating(first, micro_batches, chunks, ranks))
    return Schedule(f"interleaved 1F1B, {chunks} chunks", tuple(orders), chunks)


def in_batches(schedule: Schedule, batches: int) -> Schedule:
    """The schedule several times, with a flush in between: a rank updates its weights when it has
    done all backward passes of a batch, and begins with the next. Micro-batches count on."""
    micro_batches = 1 + max(one.micro_batch for one in schedule.orders[0])
    orders = tuple(
        tuple(
            Pass(one.kind, one.micro_batch + k * micro_batches, one.chunk)
            for k in range(batches)
            for one in order
        )
        for order in schedule.orders
    )
    return Schedule(f"{schedule.name}, flushed", orders, schedule.chunks)


def pipedream(ranks: int, micro_batches: int) -> Schedule:
    """1F1B that never flushes: a rank updates its weights after each backward pass.

    So a rank's order is that of `one_f_one_b` for all micro-batches of the training (Narayanan
    et al. 2019, PipeDream, section 3.2). What differs is the weights: see `staleness`.
    """
    return Schedule("PipeDream", one_f_one_b(ranks, micro_batches).orders)


def played(schedule: Schedule, forward: float = 1.0, backward: float = 2.0) -> list[Computation]:
    """When each computation runs, if sending takes no time: rank by rank, in the rank's order.

    A micro-batch takes `forward` and `backward` units of time on a rank, all its chunks together.
    A pass starts as soon as its rank is free and what it needs is there: a forward pass that of the
    stage before, a backward pass that of the stage after.

    Raises ValueError where ranks wait for each other in a circle, with who waits for what.
    """
    ranks, last = len(schedule.orders), len(schedule.orders) * schedule.chunks - 1
    ends: dict[tuple[Kind, int, int], float] = {}  # by kind, micro-batch, stage of the model
    done: list[list[Computation]] = [[] for _ in range(ranks)]
    free = [0.0] * ranks
    moved = True
    while moved:
        moved = False
        for rank, order in enumerate(schedule.orders):
            while len(done[rank]) < len(order):
                one = order[len(done[rank])]
                stage = one.chunk * ranks + rank
                needed = _needed(one, stage, last)
                if not all(key in ends for key in needed):
                    break
                start = max([free[rank], *(ends[key] for key in needed)])
                seconds = (forward if one.kind == "forward" else backward) / schedule.chunks
                free[rank] = ends[one.kind, one.micro_batch, stage] = start + seconds
                done[rank].append(
                    Computation(rank, one.kind, one.micro_batch, start, start + seconds, one.chunk)
                )
                moved = True
    stuck = {
        r: order[len(row) :]
        for r, (order, row) in enumerate(zip(schedule.orders, done, strict=True))
    }
    waits = [
        f"rank {r} waits before {left[0].kind} {left[0].micro_batch}"
        for r, left in stuck.items()
        if left
    ]
    if waits:
        raise ValueError(f"{schedule.name} never ends: {', '.join(waits)}")
    return [one for row in done for one in row]


def staleness(schedule: Schedule, every: int = 1) -> list[int]:
    """How many updates of its weights a rank makes at most between a micro-batch's forward pass
    and its backward pass, by rank, if it updates them after each `every` backward passes.

    The backward pass needs the weights of the forward pass, so the rank keeps that many older
    versions of them, beside the current one (weight stashing: Narayanan et al. 2019, section 3.3).
    """
    most = []
    for order in schedule.orders:
        backwards, since, worst = 0, {}, 0
        for one in order:
            version = backwards // every
            if one.kind == "forward":
                since[one.micro_batch, one.chunk] = version
            else:
                worst = max(worst, version - since[one.micro_batch, one.chunk])
                backwards += 1
        most.append(worst)
    return most


def _needed(one: Pass, stage: int, last: int) -> list[tuple[Kind, int, int]]:
    """The passes, by kind, micro-batch and stage of the model, that have to be done before."""
    if one.kind == "forward":
        return [("forward", one.micro_batch, stage - 1)] if stage else []
    own: list[tuple[Kind, int, int]] = [("forward", one.micro_batch, stage)]
    return own + ([("backward", one.micro_batch, stage + 1)] if stage < last else [])


def _alternating(first: int, micro_batches: int, chunks: int, group: int) -> tuple[Pass, ...]:
    """`first` forward passes, then forward and backward in turn, then the other backward passes."""
    forwards = _through(range(chunks), "forward", micro_batches, group)
    backwards = _through(range(chunks)[::-1], "backward", micro_batches, group)
    order = forwards[:first]
    for number, one in enumerate(forwards[first:]):
        order += [one, backwards[number]]
    return tuple(order + backwards[len(forwards) - first :])


def _through(chunks: Sequence[int], kind: Kind, micro_batches: int, group: int) -> list[Pass]:
    """Groups of micro-batches, each through all the chunks before the next group begins."""
    return [
        Pass(kind, i, chunk)
        for begin in range(0, micro_batches, group)
        for chunk in chunks
        for i in range(begin, min(begin + group, micro_batches))
    ]
