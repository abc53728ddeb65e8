"""What ranks of a pipeline computed, and when: forward and backward passes of micro-batches.

A drive marks them with `computing`; `computations` finds them in the evidence. Schedules that are
not run but worked out have the same form (`hpml.predict.pipeline.played`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, cast

from hpml.ranks.evidence import Evidence
from hpml.ranks.rank.recorder import mark

Kind = Literal["forward", "backward"]
_NAME = re.compile(r"(forward|backward) (\d+)(?: of chunk (\d+))? (begins|ends)")


@dataclass(frozen=True)
class Computation:
    """One pass of one micro-batch through the layers that a rank has.

    `micro_batch` counts from 0. `start` and `end` are on one clock for all ranks: seconds, or
    units of time where nothing was measured. A rank with several separate stages of the model
    (chunks, as Megatron-LM names them) has them numbered from the model's input on in `chunk`.
    """

    rank: int
    kind: Kind
    micro_batch: int
    start: float
    end: float
    chunk: int = 0


@contextmanager
def computing(kind: Kind, micro_batch: int, chunk: int = 0) -> Iterator[None]:
    """On a rank: what runs inside is this pass of this micro-batch, from begin to end.

    with computing("forward", 3):
        output = stage(received)
    """
    name = f"{kind} {micro_batch} of chunk {chunk}"
    mark(f"{name} begins")
    yield
    mark(f"{name} ends")


def watch(stage: Any) -> None:
    """On a rank: mark from now on what a stage of torch.distributed.pipelining computes.

    `stage` is a `PipelineStage`, in any schedule. To wait for messages is not to compute.
    """
    forward, backward = stage.forward_one_chunk, stage.backward_one_chunk

    def marked_forward(micro_batch: int, *args: Any, **options: Any) -> Any:
        with computing("forward", micro_batch, stage.stage_index // stage.group_size):
            return forward(micro_batch, *args, **options)

    def marked_backward(micro_batch: int, *args: Any, **options: Any) -> Any:
        with computing("backward", micro_batch, stage.stage_index // stage.group_size):
            return backward(micro_batch, *args, **options)

    stage.forward_one_chunk, stage.backward_one_chunk = marked_forward, marked_backward


def computations(evidence: Evidence) -> list[Computation]:
    """What the ranks of a launch marked with `computing`, each rank's in order of its begin.

    Times are seconds since the launch began. What began and never ended is left out, and what
    lies outside of the marks that `evidence` still has (see `hpml.trace.repetition.quickest`).
    """
    found = []
    for rank in evidence.ranks:
        begun: dict[tuple[Kind, int, int], float] = {}
        for one in rank.marks:
            if not (name := _NAME.fullmatch(one.name)):
                continue
            key = (cast(Kind, name[1]), int(name[2]), int(name[3] or 0))
            if name[4] == "begins":
                begun[key] = one.at
            elif key in begun:
                kind, micro_batch, chunk = key
                start = begun.pop(key)
                found.append(Computation(rank.rank, kind, micro_batch, start, one.at, chunk))
    return sorted(found, key=lambda one: (one.rank, one.start))


def idle_share(done: Sequence[Computation]) -> float:
    """The bubble: which share of the ranks' time nothing was computed in, from 0 to 1.

    Of the time from the first computation's start to the last one's end, on all ranks together.
    Ranks are those that computed something. Raises ValueError where nobody did.
    """
    whole = _span(done) * len({one.rank for one in done})
    return 1 - sum(one.end - one.start for one in done) / whole


def idle_shares(done: Sequence[Computation]) -> dict[int, float]:
    """`idle_share` of each rank, by rank, within the span of all of them."""
    span = _span(done)
    busy: dict[int, float] = defaultdict(float)
    for one in done:
        busy[one.rank] += one.end - one.start
    return {rank: 1 - busy[rank] / span for rank in sorted(busy)}


def live_activations(done: Iterable[Computation]) -> dict[int, int]:
    """The most micro-batches whose activations a rank held at one time, by rank.

    A rank holds them from the begin of a forward pass to the end of its backward pass. A
    micro-batch counts once for each chunk that it is live in. It is the order of a rank's
    computations that decides, and not how long they take.
    """
    live: dict[int, int] = defaultdict(int)
    peak: dict[int, int] = defaultdict(int)
    for one in sorted(done, key=lambda each: each.start):
        if one.kind == "forward":
            live[one.rank] += 1
            peak[one.rank] = max(peak[one.rank], live[one.rank])
        else:
            live[one.rank] -= 1
    return dict(sorted(peak.items()))


def _span(done: Sequence[Computation]) -> float:
    if not done:
        raise ValueError("no rank computed anything")
    return max(one.end for one in done) - min(one.start for one in done)
