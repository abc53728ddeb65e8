"""Jobs drawn afresh from each seed, and tables of their images/s with two constants planted."""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from hpml.modules.m08_case_studies.checks._published_jobs import Points, fitted_points
from hpml.modules.m08_case_studies.checks.instructors._bucketed_step import (
    images_per_s,
    step_seconds,
)

WAIT_DIGITS = 5  # of a second
IN_THE_TEXT = {  # the exercise's example: its last layer fills a bucket exactly
    "layers": [(2e9, 10_000_000), (1e9, 50_000_000)],
    "batch": 60,
    "alone": 200.0,
    "bucket_bytes": 50_000_000,
    "network": {"per_node": 4, "inside": (5e-6, 80e9), "across": (1e-4, 16e9)},
}
NOTHING_LEFT = {**IN_THE_TEXT, "bucket_bytes": 10_000_000}  # when backward is over
# Backward is over long after the last all-reduce: its last layer has no gradients. Without α,
# since it is a matter of taste whether such a layer makes a bucket of 0 bytes.
ENDS_WITH_COMPUTE = {
    **IN_THE_TEXT,
    "layers": [(2e9, 0), (1e9, 50_000_000)],
    "network": {"per_node": 4, "inside": (0.0, 80e9), "across": (0.0, 16e9)},
}


@dataclass(frozen=True)
class Table:
    """A scaling table that the model explains at two sizes, and at no other."""

    job: dict[str, Any]
    points: Points
    share: float
    wait: float


def drawn_job(draw: random.Random, ratio: float, *, one_bucket: bool = False) -> dict[str, Any]:
    """A network of 6 to 9 layers: early ones compute most, late ones have most parameters.

    On the links across nodes, all gradients take about `ratio` times as long as backward.
    """
    count = draw.randint(6, 9)
    layers = [
        (
            round(draw.uniform(2e8, 2e9) * 0.8**place),
            4 * round(draw.uniform(2e5, 1e6) * 1.5**place),
        )
        for place in range(count)
    ]
    batch = draw.choice((32, 48, 64, 96, 128))
    compute = draw.uniform(0.08, 0.4)  # seconds
    nbytes = sum(size for _, size in layers)
    across = 2 * nbytes * 8 / (ratio * compute * 2 / 3)
    alpha = draw.uniform(2e-5, 2e-4)
    return {
        "layers": layers,
        "batch": batch,
        "alone": round(batch / compute, 1),
        "bucket_bytes": 2 * nbytes if one_bucket else round(nbytes / draw.uniform(3.5, 6)),
        "network": {
            "per_node": draw.choice((2, 4, 8)),
            "inside": (round(alpha / 5, 7), round(across * draw.uniform(2, 6))),
            "across": (round(alpha, 7), round(across)),
        },
    }


def sizes(draw: random.Random, per_node: int) -> list[int]:
    """Numbers of ranks: one, all of a node, and more nodes; not all are powers of two."""
    return [1, per_node, draw.randint(2, 5) * per_node, draw.randint(8, 40) * per_node]


@lru_cache(maxsize=8)
def tables(seed: int, count: int = 3) -> tuple[Table, ...]:
    """In the first, the largest size has the fewest images/s of all beyond one node. The last one's
    share is a few percent, an odd number of them."""
    draw = random.Random(f"tables {seed}")
    found: list[Table] = []
    while len(found) < count:
        percent = draw.choice((3, 7)) if len(found) == count - 1 else draw.randint(15, 85)
        table = _table(draw, percent / 100, draw.uniform(0.01, 0.04))
        if not _another_share_fits(table):
            if not found:
                size, rate = table.points.pop()
                table.points.append((size, rate / draw.uniform(40, 50)))
            found.append(table)
    return tuple(found)


@lru_cache(maxsize=8)
def hasty(seed: int) -> Table:
    """A table that only a negative wait meets exactly; the best of the others is far nearer than
    asked for."""
    draw = random.Random(f"hasty {seed}")
    while True:
        table = _table(draw, draw.randint(15, 85) / 100, -0.004)
        # Where every share's wait is negative there is no fit at all: draw again.
        miss, share, _ = min(_fits(table.job, table.points), default=(0.0, 0.0, 0.0))
        if 1e-5 < miss < 1e-3 and table.share < share < 1:
            return table


@lru_cache(maxsize=8)
def whole_rate(seed: int) -> Table:
    """A table that the whole rate comes nearest to, and does not meet: at the second size the step
    is a little longer. A smaller share without a wait, where it should be negative, comes nearer,
    and misses the first size."""
    draw = random.Random(f"whole rate {seed}")
    while True:
        table = _table(draw, 1.0, draw.uniform(0.05, 0.09))
        second = fitted_points(table.job, table.points)[1]
        points = [
            (size, rate / 1.002 if (size, rate) == second else rate) for size, rate in table.points
        ]
        table = replace(table, points=points)
        fits = list(_fits(table.job, points))
        miss, share, _ = min(fits)
        near, without = min(_fits(table.job, points, least=0.0))[:2]
        others = any(one <= 0.9 for _, one, _ in fits)
        if share == 1 and near < miss < 3e-3 and without < 0.95 and others:
            return table


def _table(draw: random.Random, share: float, late: float) -> Table:
    """With a wait of `late` times a rank's compute."""
    job = drawn_job(draw, draw.uniform(1.3, 2.2) * share)
    wait = round(late * job["batch"] / job["alone"], WAIT_DIGITS)
    node = job["network"]["per_node"]
    ranks = [size for size in (1, node // 2, node) if size >= 1]
    beyond = [node * halves // 2 for halves in (3, draw.choice((6, 8)), 16, 32, 64)]
    ranks = sorted({*ranks, *beyond})  # the first has half a node
    fitted = [size for size in ranks if size > node][:2]
    points = []
    for size in ranks:
        # Within a node and far beyond, something else is slow too: a bus, a switch.
        slower = 1.0 if size in fitted or size == 1 else draw.uniform(1.08, 1.25)
        points.append((size, images_per_s(job, size, share, wait) / slower))
    return Table(job, points, share, wait)


def planted(job: dict[str, Any], points: Points) -> tuple[float, float]:
    """The share and the wait that a table was made with."""
    _, share, wait = min(_fits(job, points))
    return share, round(wait, WAIT_DIGITS)


def _fits(
    job: dict[str, Any], points: Points, least: float | None = None
) -> Iterator[tuple[float, float, float]]:
    """For each share whose wait is not negative: by how much it misses the second point; both.

    With `least`, which is a mistake, other shares have this wait.
    """
    (first, first_rate), (second, second_rate) = fitted_points(job, points)
    for percent in range(1, 101):
        share = percent / 100
        rest = first * job["batch"] / first_rate - step_seconds(job, first, share)
        wait = rest / math.log2(first)  # as the model then meets the first point
        if wait < 0 and least is not None:
            wait = least
        if wait >= 0:
            yield abs(images_per_s(job, second, share, wait) / second_rate - 1), share, wait


def _another_share_fits(table: Table) -> bool:
    """Whether a share that is far from the planted one meets both points nearly as well."""
    return any(
        abs(share - table.share) > 0.02 and miss < 1e-3
        for miss, share, _ in _fits(table.job, table.points)
    )
