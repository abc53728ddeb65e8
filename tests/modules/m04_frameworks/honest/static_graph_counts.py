# %%answer static_graph
# unusual: reads that are still to come are counted, forwards; all orders of branches are tried
from collections import Counter
from functools import cache
from itertools import permutations
from typing import NamedTuple


class Branch(NamedTuple):
    peak: int
    left: int
    names: tuple


def plan(graph):
    return tuple(steps(graph))


def steps(graph):
    by_name = {node["name"]: node for node in graph["nodes"]}

    def storage(name):
        while name in by_name and by_name[name]["view"]:
            name = by_name[name]["inputs"][0]
        return name

    @cache
    def depends(name):
        if name not in by_name:
            return frozenset()
        return frozenset({name}).union(*map(depends, by_name[name]["inputs"]))

    run = frozenset().union(*map(depends, graph["outputs"]))
    remaining = Counter(storage(source) for name in run for source in by_name[name]["inputs"])
    remaining.update(storage(output) for output in graph["outputs"])  # the caller reads, too
    remaining.update(graph["given"])
    for node in graph["nodes"]:
        if node["name"] in run:
            yield ["run", node["name"]]
            for source in node["inputs"]:
                remaining[storage(source)] -= 1
                if remaining[storage(source)] == 0:
                    yield ["free", storage(source)]


def order(graph):
    by_name = {node["name"]: node for node in graph["nodes"]}

    def finished(name):
        found = [finished(one) for one in by_name[name]["inputs"] if one in by_name]
        own = by_name[name]["bytes"]

        def joined(branches):
            peak = left = 0
            for branch in branches:
                peak, left = max(peak, left + branch.peak), left + branch.left
            names = sum((branch.names for branch in branches), ())
            return Branch(max(peak, left + own), own, (*names, name))

        return min(map(joined, permutations(found)))

    return finished(*graph["outputs"]).names
