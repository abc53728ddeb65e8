"""The plays of predict_scaling: jobs, what is right on them, and what usual mistakes return."""

import random
from collections.abc import Callable, Sequence
from typing import Any

from hpml.modules.m08_case_studies.checks._published_jobs import fitted_points, published
from hpml.modules.m08_case_studies.checks.instructors._bucketed_step import (
    CONSTANT_MISTAKES,
    CURVE_MISTAKES,
    RIGHT,
    RING_MISTAKES,
    Job,
    buckets,
    images_per_s,
    ready,
    ring_seconds,
)
from hpml.modules.m08_case_studies.checks.instructors._scaling_jobs import (
    ENDS_WITH_COMPUTE,
    IN_THE_TEXT,
    NOTHING_LEFT,
    drawn_job,
    hasty,
    planted,
    sizes,
    tables,
    whole_rate,
)

# How long all gradients are under way, as a multiple of backward: hidden, even, exposed
RATIOS = (0.5, 1.0, 2.5)

Mistakes = Sequence[tuple[str, Callable[..., float]]]


def inputs(seed: int, world_size: int) -> list[dict[str, Any]]:
    """For the only rank: the arguments of each function's calls, by claim.

    The text's example comes first. 5 ranks are a node and part of another, 3 are part of one.
    """
    draw = random.Random(seed)
    networks = [drawn_job(draw, 1.0)["network"] for _ in range(2)]
    ring: list[list[Any]] = [
        [nbytes, ranks, IN_THE_TEXT["network"]]
        for ranks in (8, 5, 3)
        for nbytes in (50_000_000, 10_000_000)
    ]
    ring += [
        [nbytes, ranks, network]
        for network in networks
        for ranks in sizes(draw, network["per_node"])
        for nbytes in (draw.randint(1_000, 20_000), draw.randint(10**7, 10**9))
    ]

    def curve(one_bucket: bool) -> list[list[Any]]:
        jobs = [drawn_job(draw, ratio, one_bucket=one_bucket) for ratio in RATIOS]
        return [[job, ranks] for job in jobs for ranks in sizes(draw, job["network"]["per_node"])]

    constants = [
        [table.job, ranks, table.share, table.wait]
        for table in tables(seed + 1)
        for ranks in sizes(draw, table.job["network"]["per_node"])
    ]
    return [
        {
            "ring": ring,
            "whole": curve(one_bucket=True),
            "buckets": [
                *(
                    [job, ranks]
                    for job in (IN_THE_TEXT, NOTHING_LEFT, ENDS_WITH_COMPUTE)
                    for ranks in (8, 5, 3)
                ),
                *curve(one_bucket=False),
            ],
            "constants": constants,
            "tables": [
                [table.job, table.points[::-1]]
                for table in (*tables(seed), whole_rate(seed), hasty(seed))
            ],
            "published": [[one.job, one.given, one.predicted_at] for one in published()],
        }
    ]


def expect(inputs: list[dict[str, Any]], world_size: int) -> dict[str, Any]:
    """By claim: what is right, and (hint, what somebody with this mistake returns).

    Of a table: its constants, and (ranks, images/s, lines of a step) of each point that is fitted.
    Of a published one: its name, and the points to predict.
    """
    (given,) = inputs
    without = {name: [[*call, 1.0, 0.0] for call in given[name]] for name in ("whole", "buckets")}
    return {
        "ring": _values(given["ring"], ring_seconds, RING_MISTAKES),
        **{name: _values(calls, images_per_s, CURVE_MISTAKES) for name, calls in without.items()},
        "constants": _values(given["constants"], images_per_s, CONSTANT_MISTAKES),
        "tables": [
            (
                planted(job, points),
                [(*point, lines(job, point[0])) for point in fitted_points(job, points)],
            )
            for job, points in given["tables"]
        ],
        "published": [(one.name, one.unseen) for one in published()],
    }


def _values(
    calls: Sequence[Sequence[Any]], right: Callable[..., float], mistakes: Mistakes
) -> dict[str, Any]:
    return {
        "right": [right(*call) for call in calls],
        "mistakes": [(hint, [wrong(*call) for call in calls]) for hint, wrong in mistakes],
    }


def lines(job: Job, ranks: int) -> list[tuple[float, float]]:
    """Of a step across nodes: without waits it takes the most of a + b / share, over these (a, b).

    It ends with backward, or with the last bucket; since some bucket that did not queue, the
    network has then sent without a break.
    """
    compute = job["batch"] / job["alone"]
    leaving = buckets(ready(job["layers"], compute, RIGHT), job["bucket_bytes"], RIGHT)
    latency = ring_seconds(0, ranks, job["network"])
    found, messages, sent = [(compute, 0.0)], 0.0, 0.0
    for moment, nbytes in reversed(leaving):
        messages += latency
        sent += ring_seconds(nbytes, ranks, job["network"]) - latency
        found.append((moment + messages, sent))
    return found
