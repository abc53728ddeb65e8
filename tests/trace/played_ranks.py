"""Traces of ranks that never ran: data parallel steps worked out from planted seconds."""

from collections.abc import Sequence

import numpy as np

from hpml.trace.profiler.trace import Step, Trace

GAP = 1e-7  # between two events of one thread


class _Recorded:
    """The events of one rank, as they are written down."""

    def __init__(self) -> None:
        self.events: list[tuple[float, float, str, str, tuple[str, str]]] = []
        self.steps: list[Step] = []

    def add(self, name, category, start, end, thread="main"):
        self.events.append((start, end - start, name, category, ("1", thread)))

    def trace(self, rank: int, world_size: int, offset: float) -> Trace:
        events = sorted(self.events)
        start, duration, name, category, thread = zip(*events, strict=True)
        names, categories, threads = (
            tuple(dict.fromkeys(column)) for column in (name, category, thread)
        )
        return Trace(
            rank=rank,
            world_size=world_size,
            start=np.array(start) - offset,
            duration=np.array(duration),
            name=np.array([names.index(n) for n in name], np.int32),
            category=np.array([categories.index(c) for c in category], np.int32),
            thread=np.array([threads.index(t) for t in thread], np.int32),
            names=names,
            categories=categories,
            threads=threads,
            steps=tuple(Step(s.number, s.start - offset, s.end - offset) for s in self.steps),
        )


def play(
    loading: Sequence[Sequence[float]],
    *,
    forward: float = 0.01,
    backward: Sequence[float] = (0.01, 0.01),
    transfer: Sequence[float] = (0.005, 0.005),  # as many as there are in `backward`
    optimizer: float = 0.001,
    slower: Sequence[float] | None = None,
    offset: Sequence[float] | None = None,
    first: int = 3,
) -> list[Trace]:
    """Traces of data parallel steps, from 100 s on; every event of work is one operator.

    `loading[r][k]` are rank r's seconds of loading in the k-th step. After each piece of `backward`
    a bucket is called, which takes `transfer` seconds once all ranks have called it and the bucket
    before it is done. `slower[r]` multiplies rank r's forward and backward. Add `offset[r]` to the
    times of rank r, and they are on the true clock.
    """
    size = len(loading)
    slower = slower or [1.0] * size
    recorded = [_Recorded() for _ in range(size)]
    now = [100.0] * size
    for k in range(len(loading[0])):
        begun = list(now)
        calls: list[list[float]] = [[] for _ in backward]
        for rank, one in enumerate(recorded):
            t = now[rank]
            one.add("loading", "user_annotation", t, t + loading[rank][k])
            t += loading[rank][k]
            end = t + forward * slower[rank]
            one.add("forward", "user_annotation", t, end)
            one.add("aten::linear", "cpu_op", t, end)
            t = end
            for number, piece in enumerate(backward):
                one.add("Backward", "cpu_op", t, t + piece * slower[rank] - GAP)
                t += piece * slower[rank]
                calls[number].append(t - GAP / 2)
                one.add("c10d::allreduce_", "cpu_op", t - GAP / 2, t - GAP / 2)
            now[rank] = t
        done = 0.0
        for number, seconds in enumerate(transfer):
            free, done = done, max(done, *calls[number]) + seconds
            for rank, one in enumerate(recorded):
                start = max(calls[number][rank], free)
                one.add("gloo:all_reduce", "user_annotation", start, done, "gloo")
        for rank, one in enumerate(recorded):
            t = max(now[rank], done)
            began = begun[rank] + loading[rank][k] + forward * slower[rank]
            one.add("backward", "user_annotation", began, t)
            one.add("optimizer", "user_annotation", t, t + optimizer)
            one.add("aten::add_", "cpu_op", t, t + optimizer)
            one.steps.append(Step(first + k, begun[rank], t + optimizer))
            now[rank] = t + optimizer + GAP
    offset = offset or [0.0] * size
    return [one.trace(r, size, offset[r]) for r, one in enumerate(recorded)]
