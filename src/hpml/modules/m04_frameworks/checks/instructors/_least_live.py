"""The nodes that a graph's outputs need, and the fewest bytes that can be live while each runs."""

from collections.abc import Sequence

from hpml.modules.m04_frameworks.checks._executed_plan import Graph, memory_of


def needed(graph: Graph) -> set[str]:
    """The nodes on which an output depends."""
    inputs = {node["name"]: node["inputs"] for node in graph["nodes"]}
    found: set[str] = set()
    pending = list(graph["outputs"])
    while pending:
        name = pending.pop()
        if name in inputs and name not in found:
            found.add(name)
            pending += inputs[name]
    return found


def least_live(graph: Graph, order: Sequence[str] | None = None) -> list[int]:
    """The fewest bytes that can be live while each needed node runs, in `order` (that of the
    graph, if None): those of each tensor from its own node to the last that reads it.

    Counted from intervals, with no plan.
    """
    nodes = {node["name"]: node for node in graph["nodes"]}
    wanted, owner = needed(graph), memory_of(graph)
    names = [name for name in (nodes if order is None else order) if name in wanted]
    place = {name: number for number, name in enumerate(names)}
    last = dict(place)
    for name in names:
        for base in (owner[source] for source in nodes[name]["inputs"]):
            if base in last:
                last[base] = max(last[base], place[name])
    for output in graph["outputs"]:
        if owner[output] in last:
            last[owner[output]] = len(names) - 1
    live = [0] * len(names)
    for name in names:
        if not nodes[name]["view"]:
            for number in range(place[name], last[name] + 1):
                live[number] += nodes[name]["bytes"]
    return live
