"""Reading and computing, one after the other or at the same time: who did what when.

One step reads a batch and computes on it. With nothing read ahead a step takes the sum of both;
where a thread reads ahead, the longer of the two.
"""

import statistics
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from matplotlib.figure import Figure

from hpml.trace.layout import PALETTE

READ, COMPUTE = "read", "compute"
ROWS = {READ: (0, PALETTE[1]), COMPUTE: (1, PALETTE[0])}


@dataclass(frozen=True)
class Span:
    """One batch read, or computed on: seconds since the first read began."""

    what: str
    batch: int
    begin: float
    end: float


def steps(
    read: Callable[[int], Any], compute: Callable[[Any], Any], batches: int, ahead: int = 0
) -> list[Span]:
    """`batches` steps, with up to `ahead` batches read by a thread while others are computed on.

    `read(number)` returns a batch, which `compute` is given. Spans are in the order of their ends.
    Errors of either are raised.
    """
    spans: list[Span] = []
    start = time.perf_counter()

    def timed(what: str, number: int, work: Callable[[Any], Any], argument: Any) -> Any:
        begin = time.perf_counter() - start
        result = work(argument)
        spans.append(Span(what, number, begin, time.perf_counter() - start))
        return result

    if ahead == 0:
        for number in range(batches):
            timed(COMPUTE, number, compute, timed(READ, number, read, number))
        return spans
    with ThreadPoolExecutor(1) as reader:
        coming = deque(
            reader.submit(timed, READ, number, read, number)
            for number in range(min(ahead, batches))
        )
        for number in range(batches):
            batch = coming.popleft().result()
            if number + ahead < batches:
                coming.append(reader.submit(timed, READ, number + ahead, read, number + ahead))
            timed(COMPUTE, number, compute, batch)
    return spans


def step_seconds(spans: Sequence[Span]) -> float:
    """Seconds from the end of one step to the end of the next: the median, without the first."""
    ends = [span.end for span in spans if span.what == COMPUTE]
    return statistics.median(later - earlier for earlier, later in pairwise(ends))


def part_seconds(spans: Sequence[Span], what: str) -> float:
    """Seconds of a `READ` or a `COMPUTE`: the median."""
    return statistics.median(span.end - span.begin for span in spans if span.what == what)


def picture(panels: Mapping[str, Sequence[Span]], *, title: str = "") -> Figure:
    """A bar for each batch read and each batch computed on, with the batch's number; in ms."""
    figure = Figure(figsize=(9, 0.8 + 1.1 * len(panels)), layout="constrained")
    places = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (name, spans) in zip(places, panels.items(), strict=True):
        for span in spans:
            row, colour = ROWS[span.what]
            axes.barh(
                row,
                1e3 * (span.end - span.begin),
                left=1e3 * span.begin,
                height=0.8,
                color=colour,
                edgecolor="black",
                linewidth=0.5,
            )
            middle = 1e3 * (span.begin + span.end) / 2
            axes.text(middle, row, str(span.batch), ha="center", va="center", fontsize=8)
        axes.set_yticks([0, 1], list(ROWS))
        axes.set_ylim(1.6, -0.6)
        axes.set_title(name, fontsize=9, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
    places[-1].set_xlabel("ms")
    if title:
        figure.suptitle(title, fontsize=11)
    return figure
