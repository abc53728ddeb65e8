"""Usual mistakes in choosing how many ranks to pay for: what each makes of the same job.

A judge compares an answer with them, to name the one that explains it. Tables are (hint, mistake).
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from hpml.modules.m08_case_studies.checks.instructors._knee_cases import (
    Choice,
    Job,
    cheapest,
    curve,
    exact_bill,
    gains,
    knee,
    knee_by_full_nodes,
    nodes_of,
)


def billed(nodes: Callable[[Job, int], float]) -> Callable[[Job, int, float], float]:
    """Money with a wrong number of nodes."""

    def money(job: Job, ranks: int, rate: float) -> float:
        return nodes(job, ranks) * exact_bill(job, ranks, rate)[0] * job["node_hour"]

    return money


def parts(job: Job, ranks: int) -> float:
    return ranks / job["per_node"]


def whole_ones_only(job: Job, ranks: int) -> int:
    return ranks // job["per_node"]


def one_more(job: Job, ranks: int) -> int:
    return ranks // job["per_node"] + 1


def each_rank(job: Job, ranks: int) -> int:
    return ranks


def exact(job: Job, ranks: int, rate: float) -> float:
    return exact_bill(job, ranks, rate)[1]


# Money of (job, ranks, rate)
OF_THE_BILL = (
    ("parts", billed(parts)),
    ("floor", billed(whole_ones_only)),
    ("one_more", billed(one_more)),
    ("each_rank", billed(each_rank)),
    ("one_node", billed(lambda job, ranks: 1)),
    ("price", lambda job, ranks, rate: exact(job, ranks, rate) / job["node_hour"]),
    ("hourly", lambda job, ranks, rate: nodes_of(job, ranks) * job["node_hour"]),
    ("seconds", lambda job, ranks, rate: 3600 * exact(job, ranks, rate)),
    ("all_ranks", lambda job, ranks, rate: exact(job, ranks, rate) / ranks),
)


def least(
    money: Callable[[Job, int, float], float],
    *,
    then: Callable[[float, int], float] = lambda hours, ranks: hours,
    digits: int = 2,
    in_time: Callable[[Job, float], bool] = lambda job, hours: hours <= job["deadline"],
) -> Callable[[Job], Choice]:
    """`cheapest` by another bill, another order of equal ones, or another deadline."""

    def chosen(job: Job) -> Choice:
        found = []
        for ranks, rate in job["measured"]:
            hours = exact_bill(job, ranks, rate)[0]
            if in_time(job, hours):
                order = (round(money(job, ranks, rate), digits), then(hours, ranks))
                found.append((*order, ranks))
        return min(found, default=(None,))[-1]

    return chosen


def always(job: Job, hours: float) -> bool:
    return True


def in_nodes(job: Job) -> Choice:
    right = cheapest(job)
    return right and nodes_of(job, right)


OF_THE_CHEAPEST = (
    ("fewest", least(lambda job, ranks, rate: ranks)),
    ("largest", least(lambda job, ranks, rate: -ranks)),
    ("fastest", least(lambda job, ranks, rate: -rate)),
    ("no_deadline", least(exact, in_time=always)),
    ("units", least(exact, in_time=lambda job, hours: 3600 * hours <= job["deadline"])),
    ("parts", least(billed(parts))),
    ("floor", least(billed(whole_ones_only))),
    ("one_more", least(billed(one_more))),
    ("each_rank", least(billed(each_rank))),
    ("one_node", least(billed(lambda job, ranks: 1))),
    ("hourly", least(lambda job, ranks, rate: nodes_of(job, ranks))),
    ("nodes", in_nodes),
)


def or_else(chosen: Callable[[Job], Choice], instead: Callable[[Job], Choice]):
    """The right choice, and something else where nothing meets the deadline."""

    def of(job: Job) -> Choice:
        right = chosen(job)
        return instead(job) if right is None else right

    return of


_NO_SIZE = (
    least(exact, in_time=always),
    least(lambda job, ranks, rate: -rate, in_time=always),
    least(lambda job, ranks, rate: -ranks, in_time=always),
    lambda job: 0,
    lambda job: -1,
)
_OF_TIES = (
    least(exact, digits=9),
    least(exact, digits=0),
    least(exact, then=lambda hours, ranks: ranks),
)
# What is wrong only where nothing meets the deadline, or two bills are equal
OF_THE_EDGES = (
    *(("nothing", or_else(cheapest, instead)) for instead in _NO_SIZE),
    *(("tie", chosen) for chosen in _OF_TIES),
    *(("nothing", or_else(chosen, instead)) for chosen in _OF_TIES for instead in _NO_SIZE),
)


def knee_where(pays: Callable[[Job, int], bool], *, beyond: bool = False) -> Callable[[Job], int]:
    """The size before the first step k that does not pay; `beyond`: the one after it."""

    def chosen(job: Job) -> int:
        points = curve(job)
        for place in range(len(points) - 1):
            if not pays(job, place):
                return points[place + beyond][2]
        return points[-1][2]

    return chosen


def enough(job: Job, place: int) -> bool:
    return gains(job)[place] >= job["worth"]


def on_average(job: Job, place: int) -> bool:
    """Efficiency of all nodes against the smallest number."""
    (first, rate, _), after = curve(job)[0], curve(job)[place + 1]
    return after[1] / after[0] >= job["worth"] * rate / first


def by_ratio(job: Job, place: int) -> bool:
    now, after = curve(job)[place : place + 2]
    return after[1] / now[1] >= job["worth"] * after[0] / now[0]


def by_the_size_before(job: Job, place: int) -> bool:
    now, after = curve(job)[place : place + 2]
    return (after[1] - now[1]) / (after[0] - now[0]) >= job["worth"] * now[1] / now[0]


def not_divided(job: Job, place: int) -> bool:
    """The whole step against one node."""
    points = curve(job)
    return points[place + 1][1] - points[place][1] >= job["worth"] * points[0][1] / points[0][0]


def first_not_divided(job: Job, place: int) -> bool:
    """An added node against all nodes of the smallest size."""
    return gains(job)[place] >= job["worth"] * curve(job)[0][0]


def last_that(pays: Callable[[Job, int], bool]) -> Callable[[Job], int]:
    """The size after the last step that pays, whatever is before it."""

    def chosen(job: Job) -> int:
        points = curve(job)
        paying = [place for place in range(len(points) - 1) if pays(job, place)]
        return points[paying[-1] + 1][2] if paying else points[0][2]

    return chosen


def from_the_last_that_paid(job: Job) -> int:
    """Leaves out what does not pay, and counts what a later size adds to the last that did."""
    points = curve(job)
    one, now = points[0][1] / points[0][0], points[0]
    for after in points[1:]:
        if (after[1] - now[1]) / (after[0] - now[0]) >= job["worth"] * one:
            now = after
    return now[2]


def through(points: Sequence[tuple[float, float, int]], worth: float) -> int:
    """The knee of (units, images/s, ranks) as they are given."""
    for now, after in pairwise(points):
        if after[1] - now[1] < worth * (after[0] - now[0]) * points[0][1] / points[0][0]:
            return now[2]
    return points[-1][2]


def by_ranks(job: Job) -> int:
    """Ranks counted, not nodes."""
    return through([(n, rate, n) for n, rate in sorted(job["measured"])], job["worth"])


def every_size(job: Job) -> int:
    """Nodes counted, but each size is a step of its own."""
    sizes = sorted(job["measured"])
    return through([(nodes_of(job, n), rate, n) for n, rate in sizes], job["worth"])


def as_measured(job: Job) -> list[tuple[int, float, int]]:
    """As `curve`, in the order in which the numbers of nodes were measured first."""
    first = list(dict.fromkeys(nodes_of(job, ranks) for ranks, _ in job["measured"]))
    return sorted(curve(job), key=lambda point: first.index(point[0]))


def unsorted(job: Job) -> int:
    return through(as_measured(job), job["worth"])


def unsorted_quotients(job: Job) -> int:
    """The same with a quotient of what is added: fewer nodes and fewer images/s seem to pay."""
    points = as_measured(job)
    one = points[0][1] / points[0][0]
    for now, after in pairwise(points):
        if (after[1] - now[1]) / (after[0] - now[0]) < job["worth"] * one:
            return now[2]
    return points[-1][2]


def fullest(job: Job) -> int:
    """The largest size of each number of nodes, not the fastest."""
    largest: dict[int, tuple[int, float, int]] = {}
    for ranks, rate in sorted(job["measured"]):
        largest[nodes_of(job, ranks)] = (nodes_of(job, ranks), rate, ranks)
    return through(list(largest.values()), job["worth"])


def full_nodes(job: Job) -> int:
    """Incomplete nodes left out."""
    full = [
        (n // job["per_node"], rate, n)
        for n, rate in sorted(job["measured"])
        if n % job["per_node"] == 0
    ]
    return through(full, job["worth"])


def one_rank(job: Job) -> int:
    """A node's yardstick is one rank of the smallest size, times the ranks of a node."""
    ranks, rate = min(job["measured"])
    one = rate / ranks * job["per_node"]
    points = curve(job)
    for now, after in pairwise(points):
        if after[1] - now[1] < job["worth"] * (after[0] - now[0]) * one:
            return now[2]
    return points[-1][2]


OF_THE_KNEE: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("largest_of_all", lambda job: max(job["measured"])[0]),
    ("fastest_of_all", lambda job: max(job["measured"], key=lambda point: point[1])[0]),
    ("average", knee_where(on_average)),
    ("average", last_that(on_average)),
    ("ratio", knee_where(by_ratio)),
    ("yardstick", knee_where(by_the_size_before)),
    ("yardstick", knee_where(first_not_divided)),
    ("yardstick", lambda job: knee(job, best=True)),
    ("one_rank", one_rank),
    ("one_rank", knee_by_full_nodes),
    ("whole_step", knee_where(not_divided)),
    ("beyond", knee_where(enough, beyond=True)),
    ("later", last_that(enough)),
    ("later", from_the_last_that_paid),
    ("ranks", by_ranks),
    ("every_size", every_size),
    ("unsorted", unsorted),
    ("unsorted", unsorted_quotients),
    ("fullest", fullest),
    ("fullest", full_nodes),
    ("full_nodes", lambda job: nodes_of(job, knee(job)) * job["per_node"]),
    ("knee_in_nodes", lambda job: nodes_of(job, knee(job))),
    ("fastest_of_all", lambda job: through(curve(job), 0.0)),
    ("bill_knee", lambda job: least(exact, in_time=always)(job) or math.inf),
)
