"""Trees of branches that are joined, and the least peak of an order that finishes each branch."""

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from typing import Any

from hpml.modules.m04_frameworks.checks._executed_plan import Graph
from hpml.modules.m04_frameworks.checks._ordered_tree import branches
from hpml.modules.m04_frameworks.checks.instructors._least_live import least_live

KIB = 1024
MOST = 100  # nodes of a tree
# The order of a node's branches, from each one's (peak, bytes that it leaves), by a rule
Rule = Callable[[Sequence[tuple[int, int]]], Sequence[int]]


def peak_and_order(graph: Graph, rule: Rule | None = None) -> tuple[int, list[str]]:
    """Peak and order with `rule` for each node's branches; None: try all orders of them."""
    below = branches(graph)
    nbytes = {node["name"]: node["bytes"] for node in graph["nodes"]}

    def of(name: str) -> tuple[int, list[str]]:
        found = [(*of(one), nbytes[one]) for one in below[name]]
        left = sum(kept for _, _, kept in found)

        def highest(order: Sequence[int]) -> int:
            before, top = 0, left + nbytes[name]
            for number in order:
                top = max(top, before + found[number][0])
                before += found[number][2]
            return top

        orders = permutations(range(len(found)))
        if rule is not None:
            orders = iter([tuple(rule([(peak, kept) for peak, _, kept in found]))])
        best = min(orders, key=highest)
        return highest(best), [each for number in best for each in found[number][1]] + [name]

    (root,) = graph["outputs"]
    return of(root)


def _sorted_by(key: Callable[[int, int], float]) -> Rule:
    return lambda found: sorted(range(len(found)), key=lambda number: key(*found[number]))


# What people try in place of the right rule
RIVALS: Mapping[str, Rule] = {
    "as they come": _sorted_by(lambda peak, kept: 0),
    "the other way round": lambda found: range(len(found))[::-1],
    "by peak": _sorted_by(lambda peak, kept: -peak),
    "smallest peak first": _sorted_by(lambda peak, kept: peak),
    "large results first": _sorted_by(lambda peak, kept: -kept),
    "small results first": _sorted_by(lambda peak, kept: kept),
}


def by_levels(graph: Graph) -> list[str]:
    """The nodes by their distance from the farthest leaf: all branches grow at a time."""
    below = branches(graph)

    def level(name: str) -> int:
        return 1 + max((level(one) for one in below[name]), default=0)

    return sorted(below, key=level)


def greedy(graph: Graph) -> list[str]:
    """Next runs the node that leaves the fewest bytes alive."""
    below = branches(graph)
    nbytes = {node["name"]: node["bytes"] for node in graph["nodes"]}
    done: list[str] = []
    while len(done) < len(below):
        ready = (name for name in below if name not in done and set(below[name]) <= set(done))
        done.append(min(ready, key=lambda name: nbytes[name] - sum(nbytes[n] for n in below[name])))
    return done


def forgetful(graph: Graph) -> list[str]:
    """The right rule, with peaks that leave out what lies there from the branches before."""
    below = branches(graph)
    nbytes = {node["name"]: node["bytes"] for node in graph["nodes"]}

    def of(name: str) -> tuple[int, list[str]]:
        found = sorted(((*of(one), nbytes[one]) for one in below[name]), key=lambda f: f[2] - f[0])
        peaks = [peak for peak, _, _ in found]
        own = nbytes[name] + sum(kept for _, _, kept in found)
        return max([own, *peaks]), [each for _, order, _ in found for each in order] + [name]

    return of(graph["outputs"][0])[1]


def made(draw: random.Random, depth: int, widest: int = 3) -> Graph:
    """A random tree, recorded level by level, whose given order has a higher peak than the rules
    of `RIVALS`, and those have a higher one than the least; in deep trees, `greedy` and `forgetful`
    have one too."""
    while True:
        graph = _tree(draw, depth, widest)
        least, _ = peak_and_order(graph)
        rivals = [peak_and_order(graph, rule)[0] for rule in RIVALS.values()]
        small = len(graph["nodes"]) <= MOST
        if small and min(rivals) > least and max(least_live(graph)) > max(rivals):
            others = (greedy, forgetful) if depth >= 4 else ()
            if all(max(least_live(graph, other(graph))) > least for other in others):
                return graph


def _tree(draw: random.Random, depth: int, widest: int) -> Graph:
    nodes: list[dict[str, Any]] = []

    def grow(depth: int) -> str:
        inputs = []
        if depth > 1:
            for number in range(draw.randint(2, widest)):
                inputs.append(grow(depth - 1 if number == 0 else draw.randint(1, depth - 1)))
        # A branch begins with something large, which one or two nodes make smaller
        large = 0.0 if inputs else draw.uniform(0.5, 1.0)
        for size in [s for s in (large, draw.uniform(0.02, 0.4)) if s]:
            name = f"{draw.choice(STEMS)}_{len(nodes)}"
            nbytes = 4 * round(256 * KIB * size * draw.uniform(0.3, 1.0))
            nodes.append({"name": name, "inputs": inputs, "bytes": nbytes, "view": False})
            inputs = [name]
        return name

    root = grow(depth)
    for node in nodes:
        node["inputs"] = node["inputs"] or ["images"]
    graph = {"nodes": nodes, "given": ["images"], "outputs": [root]}
    places = {name: number for number, name in enumerate(by_levels(graph))}
    return {**graph, "nodes": sorted(nodes, key=lambda node: places[node["name"]])}


STEMS = ("conv", "pool", "relu", "resize", "crop", "norm", "concat", "linear")
