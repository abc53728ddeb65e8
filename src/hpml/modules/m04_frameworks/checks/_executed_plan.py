"""A plan for a recorded graph, executed step by step: what is live when, and what goes wrong first.

A graph is {"nodes": [node, ...], "given": [name, ...], "outputs": [name, ...]}, a node
{"name": str, "inputs": [name, ...], "bytes": int, "view": bool}. A plan is a list of steps
("run", name) and ("free", name). The memory of a view is that of its first input.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpml.checks.compare import described

Graph = Mapping[str, Any]
WORDS = ("run", "free")


@dataclass(frozen=True)
class Wrong:
    """What is wrong with a plan: a kind (a key of the check's hints), and in words."""

    kind: str
    message: str


@dataclass(frozen=True)
class Executed:
    """The bytes that were live while each node ran, in the order of the plan; what was left at
    the end; and which nodes ran."""

    live: tuple[int, ...]
    left: frozenset[str]
    ran: tuple[str, ...]

    @property
    def peak(self) -> int:
        return max(self.live, default=0)


def memory_of(graph: Graph) -> dict[str, str]:
    """By name of a tensor, the tensor whose memory it is in: itself, or what it is a view of."""
    owner = {name: name for name in graph["given"]}
    for node in graph["nodes"]:
        owner[node["name"]] = owner[node["inputs"][0]] if node["view"] else node["name"]
    return owner


def malformed(plan: Any) -> Wrong | None:
    """What keeps a value from being executed as a plan."""
    if not isinstance(plan, list | tuple):
        return Wrong("shape", f"the plan is {described(plan)}")
    for number, step in enumerate(plan):
        pair = isinstance(step, list | tuple) and len(step) == 2
        if not pair or not all(isinstance(one, str) for one in step) or step[0] not in WORDS:
            return Wrong("shape", f"step {number} of the plan is {described(step)}")
    return None


def execute(graph: Graph, plan: Sequence[Sequence[str]]) -> Executed | Wrong:
    """The plan's run, or its first step that cannot be done.

    A node needs its inputs alive, and has its output beside them while it runs.
    """
    nodes = {node["name"]: node for node in graph["nodes"]}
    owner, given = memory_of(graph), set(graph["given"])
    alive: dict[str, int] = {}  # bytes, by the tensor that owns them
    freed: dict[str, int] = {}  # the step in which it was
    live: list[int] = []
    ran: list[str] = []
    known: set[str] = set()
    for number, (word, name) in enumerate(plan):
        at = f"step {number} ({word} {name[:40]})"
        if name not in owner:
            return Wrong("unknown", f"{at}: the graph has no such name")
        if word == "free":
            if name in given:
                return Wrong("given", f"{at}: {name} is given, it is the caller's")
            if nodes[name]["view"]:
                return Wrong("view", f"{at}: {name} is a view, without memory of its own")
            if name not in alive:
                why = f"was freed in step {freed[name]}" if name in freed else "has not run"
                return Wrong("again", f"{at}: {name} {why}")
            del alive[name]
            freed[name] = number
            continue
        if name in given:
            return Wrong("given", f"{at}: {name} is given, there is nothing to run")
        if name in known:
            return Wrong("again", f"{at}: {name} has run already")
        for source in nodes[name]["inputs"]:
            if source in given:
                continue
            if source not in known:
                return Wrong("order", f"{at}: its input {source} has not run")
            base = owner[source]
            if base not in given and base not in alive:
                of = "" if base == source else f", which has the memory of {source},"
                return Wrong("early", f"{at}: {base}{of} was freed in step {freed[base]}")
        known.add(name)
        ran.append(name)
        if not nodes[name]["view"]:
            alive[name] = nodes[name]["bytes"]
        live.append(sum(alive.values()))
    return Executed(tuple(live), frozenset(alive), tuple(ran))
