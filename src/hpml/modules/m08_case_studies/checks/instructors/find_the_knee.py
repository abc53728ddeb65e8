"""The plays of find_the_knee: clusters, what is right on them, and what usual mistakes choose."""

from collections.abc import Callable, Sequence
from typing import Any

from hpml.checks.kits.drawn import BY_CHOICE
from hpml.modules.m08_case_studies.checks._knee_picture import SHOWN
from hpml.modules.m08_case_studies.checks.instructors._knee_cases import (
    Choice,
    Job,
    bill_cases,
    cheapest,
    curve,
    deadline_jobs,
    edge_jobs,
    exact_bill,
    gains,
    knee,
    knee_jobs,
    nodes_of,
)
from hpml.modules.m08_case_studies.checks.instructors._knee_mistakes import (
    OF_THE_BILL,
    OF_THE_CHEAPEST,
    OF_THE_EDGES,
    OF_THE_KNEE,
)

Mistakes = Sequence[tuple[str, Callable[[Job], Choice]]]


def inputs(seed: int, world_size: int) -> list[Any]:
    """For the only rank: what `bill` is called with, and the jobs of each claim's choices."""
    return [
        {
            "bills": [list(case) for case in bill_cases(seed)],
            "deadlines": [*deadline_jobs(seed)],
            "edges": [*edge_jobs(seed)],
            "knees": [*knee_jobs(seed)],
        }
    ]


def expect(inputs: list[Any], world_size: int) -> dict[str, Any]:
    """By claim: what is right, and (hint, what somebody with this mistake returns)."""
    (given,) = inputs
    return {
        "bills": {
            "right": [exact_bill(*case) for case in given["bills"]],
            "mistakes": [
                (hint, [wrong(*case) for case in given["bills"]]) for hint, wrong in OF_THE_BILL
            ],
        },
        "deadlines": _choices(given["deadlines"], cheapest, OF_THE_CHEAPEST),
        "edges": _choices(given["edges"], cheapest, OF_THE_EDGES),
        "knees": _choices(given["knees"], knee, OF_THE_KNEE),
    }


def _choices(
    jobs: Sequence[Job], right: Callable[[Job], Choice], mistakes: Mistakes
) -> dict[str, Any]:
    return {
        "right": [right(job) for job in jobs],
        "mistakes": [(hint, [wrong(job) for job in jobs]) for hint, wrong in mistakes],
        BY_CHOICE: [sizes(job) for job in jobs],
    }


def sizes(job: Job) -> dict[int, tuple[int, float, float]]:
    """By the ranks of each size that was measured: its nodes, hours and money."""
    return {
        ranks: (nodes_of(job, ranks), *exact_bill(job, ranks, rate))
        for ranks, rate in job["measured"]
    }


def pictured() -> dict[str, Any]:
    """Of the cluster that is shown."""
    return {
        "sizes": sizes(SHOWN),
        "curve": curve(SHOWN),
        "gains": gains(SHOWN),
        "knee": knee(SHOWN),
        "cheapest": cheapest(SHOWN),
    }
