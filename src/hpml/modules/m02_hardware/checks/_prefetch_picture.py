"""The picture of an answer that reads ahead: when each batch is read, and computed on."""

import io
import itertools
import statistics

import torch

from hpml.answer import as_python
from hpml.checks.contract import Check, Picture
from hpml.modules.m02_hardware.checks._served_batches import (
    computations,
    reads,
    serving,
    take_all,
)
from hpml.ranks import launch
from hpml.ranks.evidence import RankEvidence

READ, COMPUTE = 0.03, 0.05  # seconds; both are played, by waiting
NUMBER, DEPTH = 8, 2
LIMIT = 10.0  # seconds


def prefetch_picture(check: Check, source: str) -> Picture:
    """For `Check.picture`: launch a loop over the answer's iterator, and draw it."""
    from hpml.modules.m02_hardware.checks._loading_picture import loading_picture  # with Matplotlib

    given = {"depth": DEPTH, "batches": [torch.zeros(1)] * NUMBER}
    sent, server = serving(lasts=(READ, COMPUTE))([given])
    evidence = launch(
        take_all,
        1,
        answer=as_python(source),
        answer_name=check.id,
        rules=check.rules,
        inputs=sent,
        process_group=False,
        serve=server,
        timeout=LIMIT,
    )
    read, computed = times(evidence.ranks[0])
    if len(computed) < 3:
        raise ValueError("there were fewer than three computations")
    begins = [begin for begin, _ in computed]
    step = statistics.median(later - one for one, later in itertools.pairwise(begins))
    title = f"A step of your loop takes {1e3 * step:.0f} ms"
    image = io.BytesIO()
    figure = loading_picture(read[:NUMBER], computed, title=title)
    figure.savefig(image, format="png", dpi=110, facecolor="white")
    words = (
        "Reads and computations of your loop over time, each with its batch's number. Reading "
        f"takes at least {1e3 * READ:.0f} ms here and computing "
        f"{1e3 * COMPUTE:.0f} ms, both played by waiting: in turns that is "
        f"{1e3 * (READ + COMPUTE):.0f} ms a step, at the same time {1e3 * max(READ, COMPUTE):.0f}"
    )
    return Picture(image.getvalue(), words)


def times(rank: RankEvidence) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Begin and end of each read and of each computation, in seconds since the launch began."""
    asked = [one for one in rank.asked if not one.refused]

    def at(spans: list[tuple[int, int]]) -> list[tuple[float, float]]:
        return [(asked[first].at, asked[last].answered or asked[last].at) for first, last in spans]

    return at(reads(rank)), at(computations(rank))
