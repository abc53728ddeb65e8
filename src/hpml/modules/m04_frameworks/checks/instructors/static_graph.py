"""The plays of static_graph: graphs to plan, trees to order, and the least that each needs."""

import random
from functools import cache
from typing import Any

from hpml.modules.m04_frameworks.checks._executed_plan import Graph
from hpml.modules.m04_frameworks.checks._live_bytes_picture import BATCH
from hpml.modules.m04_frameworks.checks.instructors._least_live import least_live, needed
from hpml.modules.m04_frameworks.checks.instructors._plan_cases import cases, network
from hpml.modules.m04_frameworks.checks.instructors._tree_orders import made, peak_and_order

DEPTHS = (2, 3, 3, 4, 5)  # of the trees


@cache
def trees(seed: int) -> tuple[Graph, ...]:
    """Trees of branches, small ones first."""
    draw = random.Random(f"trees {seed}")
    return tuple(made(draw, depth) for depth in DEPTHS)


def inputs(seed: int, world_size: int) -> list[dict[str, Any]]:
    """For the only rank: the graphs to plan, what is about them, and the trees to order."""
    plans = cases(seed)
    return [
        {
            "plans": [case.graph for case in plans],
            "about": [{"words": case.words, "trap": case.trap} for case in plans],
            "orders": list(trees(seed)),
        }
    ]


def expect(inputs: list[dict[str, Any]], world_size: int) -> dict[str, Any]:
    """Of each graph the nodes that no output needs, and the least peak. Of each tree the peaks that
    earn points."""
    (given,) = inputs
    return {
        "plans": [
            {
                "dead": [n["name"] for n in graph["nodes"] if n["name"] not in needed(graph)],
                "least": max(least_live(graph)),
            }
            for graph in given["plans"]
        ],
        "orders": [
            {"smaller": max(least_live(graph)) - 1, "least": peak_and_order(graph)[0]}
            for graph in given["orders"]
        ],
    }


def pictured() -> dict[str, Any]:
    """The course's network, and the fewest bytes that can be live while each node of it runs."""
    graph = network(BATCH)
    return {"graph": graph, "least": least_live(graph)}
