"""Recorded graphs to be planned, drawn afresh from each seed: each has one thing more to trip over.

The last is the course's network, with as many images as the seed says.
"""

import gzip
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hpml.modules.m04_frameworks.checks._executed_plan import Graph
from hpml.modules.m04_frameworks.checks.instructors._least_live import least_live, needed

RECORDED = Path(__file__).with_name("_recorded_network.json.gz")
NAMES = ("linear", "relu", "conv", "norm", "pool", "gelu", "scale", "dropout")


@dataclass(frozen=True)
class Case:
    """A graph; in words; and the hint for an answer that has all the cases before it right."""

    words: str
    graph: Graph
    trap: str = ""


class _Recorder:
    """A graph that grows, node by node, along a chain."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.nodes: list[dict[str, Any]] = []
        self.given = ["batch"]
        self.outputs: list[str] = []
        self.last = "batch"
        self.chain: list[str] = []

    def node(self, inputs: Sequence[str], *, view: bool = False, stem: str = "") -> str:
        name = f"{stem or self.draw.choice(NAMES)}_{len(self.nodes)}"
        nbytes = 0 if view else 4 * self.draw.randint(20_000, 90_000)
        self.nodes.append({"name": name, "inputs": list(inputs), "bytes": nbytes, "view": view})
        return name

    def goes_on(self, *inputs: str, **options: Any) -> str:
        """The chain's next node, which reads its last one and `inputs`."""
        self.last = self.node([self.last, *inputs], **options)
        self.chain.append(self.last)
        return self.last

    def layer(self) -> None:
        if self.draw.random() < 0.5:
            self.given.append(f"weight_{len(self.given)}")
            self.goes_on(self.given[-1])
        else:
            self.goes_on()

    def skip(self) -> None:
        """Something is added that was computed a few nodes before."""
        early = self.goes_on()
        for _ in range(self.draw.randint(1, 3)):
            self.layer()
        self.goes_on(early, stem="add")

    def twice(self) -> None:
        """A node reads one tensor twice; another reads it once more, later."""
        early = self.goes_on()
        self.goes_on(early, stem="mul")
        self.layer()
        self.goes_on(early, stem="add")
        self.goes_on(self.last, stem="mul")  # this one is read by nobody else

    def output(self) -> None:
        """An output in the middle, which goes on being read."""
        self.outputs.append(self.goes_on())
        self.layer()

    def dead(self) -> None:
        """Two nodes of which nobody uses the result: they read what is live, and later on."""
        early = self.goes_on()
        self.layer()
        self.layer()
        self.node([self.node([early, self.last], stem="debug")], stem="debug")
        self.layer()

    def views(self) -> None:
        """A view of a view is read when its base itself is no longer. The first of them reads a
        second tensor too, for its shape."""
        shaped = self.goes_on()
        view = self.node([self.goes_on(), shaped], view=True, stem="view_as")
        view = self.node([view], view=True, stem="transpose")
        self.layer()
        self.layer()
        self.goes_on(view, stem="add")
        of_given = self.node([self.draw.choice(self.given)], view=True, stem="transpose")
        self.goes_on(of_given, stem="matmul")

    def viewed_output(self) -> None:
        """The chain's end, as a view of it, is an output."""
        self.goes_on()
        self.outputs.append(self.node([self.last], view=True, stem="reshape"))

    def graph(self) -> Graph:
        if self.last not in self.outputs and not self.nodes[-1]["view"]:
            self.outputs.append(self.last)
        return {"nodes": self.nodes, "given": self.given, "outputs": self.outputs}


def drawn(draw: random.Random, parts: Sequence[Callable[[_Recorder], None]]) -> Graph:
    """A graph of these parts, in a new order, with layers before, between and after."""
    recorder = _Recorder(draw)
    recorder.layer()
    *middle, end = parts
    for part in [*draw.sample(middle, len(middle)), end]:
        for _ in range(draw.randint(1, 2)):
            recorder.layer()
        part(recorder)
    return recorder.graph()


def with_dead_nodes(draw: random.Random) -> Graph:
    """One in which keeping alive what dead nodes would read gives a higher peak."""
    while True:
        graph = drawn(draw, [_Recorder.dead, _Recorder.skip])
        wanted = needed(graph)
        dead = [node["name"] for node in graph["nodes"] if node["name"] not in wanted]
        nodes = [{**n, "bytes": 0} if n["name"] in dead else n for n in graph["nodes"]]
        kept = {**graph, "nodes": nodes, "outputs": [*graph["outputs"], *dead]}
        if max(least_live(kept)) > max(least_live(graph)):
            return graph


def network(batch: int) -> Graph:
    """One training step of the course's network on `batch` images (see `_record_network.py`)."""
    graph = json.loads(_recorded())
    del graph["torch"]
    for node in graph["nodes"]:
        fixed, each = node["bytes"]
        node["bytes"] = fixed + each * batch
    return graph


def recorded_by() -> str:
    """The version of PyTorch that traced the network."""
    return json.loads(_recorded())["torch"]


@cache
def _recorded() -> bytes:
    return gzip.decompress(RECORDED.read_bytes())


@cache
def cases(seed: int) -> tuple[Case, ...]:
    """Small ones first; each has what those before it have not."""
    draw = random.Random(seed)
    part = _Recorder
    batch = draw.randint(9, 63)
    everything = [part.skip, part.twice, part.output, part.dead, part.views] * 2
    return (
        Case("a chain of layers", drawn(draw, [part.layer] * 4)),
        Case("a network with skip connections", drawn(draw, [part.skip] * 3)),
        Case("nodes that read a tensor twice", drawn(draw, [part.skip, part.twice]), "twice"),
        Case("outputs in the middle", drawn(draw, [part.output, part.skip, part.output]), "output"),
        Case("nodes that no output needs", with_dead_nodes(draw), "dead"),
        Case(
            "a network with views",
            drawn(draw, [part.views, part.views, part.viewed_output]),
            "views",
        ),
        Case("all of it at once", drawn(draw, [*everything, part.viewed_output])),
        Case(f"the course's network, {batch} images", network(batch)),
    )
