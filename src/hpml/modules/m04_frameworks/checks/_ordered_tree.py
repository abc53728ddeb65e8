"""An order of a tree's nodes, looked at: its peak, and whether it finishes each branch."""

from collections.abc import Sequence

from hpml.modules.m04_frameworks.checks._executed_plan import Executed, Graph, execute


def branches(graph: Graph) -> dict[str, list[str]]:
    """By name of a node, the nodes whose values it reads."""
    own = {node["name"] for node in graph["nodes"]}
    return {n["name"]: [one for one in n["inputs"] if one in own] for n in graph["nodes"]}


def finishes_branches(graph: Graph, order: Sequence[str]) -> bool:
    """Whether no branch is begun before the one that was begun last is finished."""
    below = branches(graph)
    place = {name: number for number, name in enumerate(order)}

    def span(name: str) -> tuple[int, int]:  # first place, number of nodes
        found = [span(one) for one in below[name]]
        first = min([place[name], *(begin for begin, _ in found)])
        return first, 1 + sum(count for _, count in found)

    return all(first + count == place[name] + 1 for name in below for first, count in [span(name)])


def peak_of(graph: Graph, order: Sequence[str]) -> int:
    """The bytes that are live at most, with each value freed by the one node that reads it."""
    below = branches(graph)
    steps = [step for n in order for step in (("run", n), *(("free", one) for one in below[n]))]
    result = execute(graph, steps)
    assert isinstance(result, Executed)  # a node comes after its inputs
    return result.peak
