"""Graphs to walk back over, made anew for each seed, as plain data.

A graph's nodes are in the order in which they were computed, and the last one is the loss. Values
of operations are not in it: they follow from those of the leaves.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

# [operation, inputs, whether a gradient is required, a leaf's value or None]
Record = list[Any]
Graph = dict[str, Any]  # "kind", "nodes": Records, "kept": the nodes whose gradients are compared

KINDS = ("once", "shared", "broadcast", "branches", "everything", "chain", "ladder")
DEPTH = 5000  # of the chain: Python's recursion limit is 1000
RUNGS = 40  # of the ladder: 2^40 paths lead from the loss to its foot
LARGE = 2.0  # values beyond are scaled down: the tanh of large ones has next to no derivative
ELEMENTS = 80  # at most, in a value of a random graph

FORWARD: Mapping[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "matmul": lambda a, b: a @ b,
    "tanh": np.tanh,
    "relu": lambda a: np.maximum(a, 0.0),
    "sum": lambda a: a.sum(),
    "floor": np.floor,
    "detach": lambda a: a,
}


def values_of(nodes: Sequence[Record]) -> list[Any]:
    """Each node's value, float64, from the leaves' on."""
    values: list[Any] = []
    for operation, inputs, _, value in nodes:
        if operation != "leaf":
            value = np.array(FORWARD[operation](*[values[i] for i in inputs]))
        values.append(value)
    return values


@dataclass
class Drawing:
    """A graph in the making. Nodes are known by their place."""

    draw: random.Random
    nodes: list[Record] = field(default_factory=list)
    values: list[NDArray[np.float64]] = field(default_factory=list)

    def leaf(self, *shape: int, grad: bool = True, sign: int = 0) -> int:
        """Numbers between -1 and 1, not close to 0; all of one sign, if it is given."""
        numbers = [self.draw.uniform(0.1, 1) for _ in range(int(np.prod(shape, dtype=int)))]
        return self.given([x * (sign or self.draw.choice((-1, 1))) for x in numbers], shape, grad)

    def given(self, numbers: ArrayLike, shape: Sequence[int], grad: bool = True) -> int:
        """A leaf with these numbers."""
        value = np.array(numbers).reshape(shape)
        return self._add("leaf", (), grad, value, value)

    def op(self, operation: str, *inputs: int) -> int:
        """A node that computes this of the nodes at `inputs`."""
        grad = operation != "detach" and any(self.nodes[i][2] for i in inputs)
        value = np.array(FORWARD[operation](*[self.values[i] for i in inputs]))
        return self._add(operation, inputs, grad, None, value)

    def tamed(self, operation: str, *inputs: int) -> int:
        """The same; where values have become large, times a constant that makes them small."""
        node = self.op(operation, *inputs)
        most = np.abs(self.values[node]).max()
        if most <= LARGE:
            return node
        shape = self.shape(node)
        return self.op("mul", node, self.given(np.full(shape, 1 / most), shape, grad=False))

    def loss_of(self, nodes: Sequence[int]) -> int:
        """The sum of all elements of these nodes, each weighted by a constant of its own."""
        total = None
        for node in nodes:
            weighted = self.op("mul", node, self.leaf(*self.shape(node), grad=False))
            one = self.op("sum", weighted)
            total = one if total is None else self.op("add", total, one)
        assert total is not None
        return total

    def unused(self) -> list[int]:
        """Nodes that no other uses."""
        used = {i for _, inputs, _, _ in self.nodes for i in inputs}
        return [node for node in range(len(self.nodes)) if node not in used]

    def shape(self, node: int) -> tuple[int, ...]:
        return self.values[node].shape

    def graph(self, kind: str, kept: Sequence[int] | None = None) -> Graph:
        every = range(len(self.nodes))
        return {"kind": kind, "nodes": self.nodes, "kept": list(every if kept is None else kept)}

    def _add(
        self, operation: str, inputs: Sequence[int], grad: bool, given: Any, value: Any
    ) -> int:
        self.nodes.append([operation, list(inputs), grad, given])
        self.values.append(value)
        return len(self.nodes) - 1


def once(draw: random.Random, square: bool) -> Graph:
    """Each operation, each value used once, nothing broadcast; a relu below, at and above 0."""
    made = Drawing(draw)
    n, k, m = [draw.randint(2, 5)] * 3 if square else draw.sample(range(2, 7), 3)
    product = made.op("matmul", made.leaf(n, k), made.op("tanh", made.leaf(k, m)))
    around_zero = [(-1, 0, 1)[place % 3] * draw.uniform(0.1, 1) for place in range(n * m)]
    draw.shuffle(around_zero)
    steps = ["tanh", "add", "mul"]
    draw.shuffle(steps)
    for step in steps:
        inputs = [product] if step == "tanh" else [product, made.leaf(n, m)]
        draw.shuffle(inputs)
        product = made.op(step, *inputs)
    product = made.op("add", product, made.op("relu", made.given(around_zero, (n, m))))
    made.loss_of([made.op("matmul", product, made.leaf(m, k)), made.leaf(n, m)])
    return made.graph("once")


def leaves_shared(draw: random.Random) -> Graph:
    """Nothing is broadcast. Only leaves are used several times, so that any order is right."""
    made = Drawing(draw)
    shape = draw.sample(range(2, 6), 2)
    one, two, three = (made.leaf(*shape) for _ in range(3))
    pairs = [("mul", one, one), ("mul", one, two), ("mul", three, two), ("mul", two, two)]
    draw.shuffle(pairs)
    made.loss_of([made.op("tanh", made.op(*pair)) for pair in pairs])
    return made.graph("shared")


def shared(draw: random.Random, views: bool = False) -> Graph:
    """Nothing is broadcast. One operation uses a value twice; one value is used early and late."""
    made = Drawing(draw)
    n, m = draw.sample(range(2, 6), 2)
    pool = [made.leaf(n, m) for _ in range(3)]
    early = made.op("tanh", pool[0])
    pool += [early, made.op("mul", early, early)]
    for _ in range(draw.randint(5, 8)):
        operation = draw.choice(("add", "mul", "mul", "tanh"))
        inputs = [pool[-1], *draw.sample(pool, 1)] if operation != "tanh" else [draw.choice(pool)]
        draw.shuffle(inputs)
        pool.append(made.tamed(operation, *inputs))
    late = made.op("add", early, pool[-1])
    ends = [made.op("mul", late, pool[1])]
    made.op("mul", early, early)  # by it the value comes twice before all others
    if views:  # whichever of its uses comes first, it brings a view that cannot be written to
        summed = made.op("tanh", pool[2])
        made.op("sum", summed)
        made.op("sum", summed)
    made.op("add", pool[0], pool[2])  # the last end: both may get one array, and one gets more
    made.loss_of([*ends, *(x for x in made.unused() if x != late)])
    return made.graph("shared")


def broadcast(draw: random.Random) -> list[Graph]:
    """Each value is used once, and most are broadcast."""
    p, n, m = draw.sample(range(2, 6), 3)
    pairs = [
        ((n, m), (m,)), ((n, m), (n, 1)), ((n, m), (1, m)), ((n, 1), (1, m)),
        ((n, n), (n,)), ((n, n), (n, 1)), ((n, m), ()), ((n, m), (1,)),
        ((p, n, m), (m,)), ((p, n, m), (n, 1)), ((p, 1, m), (n, 1)), ((1, m), (1, m)),
    ]  # fmt: skip
    draw.shuffle(pairs)
    graphs = []
    for first in range(0, len(pairs), 3):
        made, ends = Drawing(draw), []
        for pair in pairs[first : first + 3]:
            leaves = [made.leaf(*shape) for shape in draw.sample(pair, 2)]
            ends.append(made.op("tanh", made.op(draw.choice(("add", "mul")), *leaves)))
        made.loss_of(ends)
        graphs.append(made.graph("broadcast"))
    return graphs


def branches(draw: random.Random) -> Graph:
    """Constants, operations on them that have no derivative, detached values, and a dead relu."""
    made = Drawing(draw)
    shape = draw.sample(range(2, 6), 2)
    constant = made.op("tanh", made.op("add", *(made.leaf(*shape, grad=False) for _ in range(2))))
    floored = made.op("floor", made.op("add", made.leaf(*shape, grad=False), constant))
    hidden = made.op("detach", made.op("tanh", made.leaf(*shape)))  # no gradient gets behind it
    beside = made.op("tanh", made.leaf(*shape))  # used with a gradient, and without one
    dead = made.op("relu", made.op("mul", made.leaf(*shape, sign=-1), made.leaf(*shape, sign=1)))
    ends = [
        made.op("mul", made.leaf(*shape), floored),
        made.op("mul", hidden, made.op("tanh", made.leaf(*shape))),
        made.op("mul", made.op("detach", beside), made.op("tanh", beside)),
        dead,
    ]
    draw.shuffle(ends)
    made.loss_of(ends)
    return made.graph("branches")


def everything(draw: random.Random) -> Graph:
    """Operations drawn at random, on values of all shapes, some of them constants."""
    made = Drawing(draw)
    n, m = draw.sample(range(2, 5), 2)
    shapes = [(n, m), (m, n), (m,), (n, 1), (), (n, n)]
    pool = [made.leaf(*shape, grad=draw.random() < 0.75) for shape in shapes]
    sure = made.leaf(n, m)
    pool += [sure, made.tamed("matmul", sure, made.leaf(m, n))]
    while len(pool) < 23:
        operation = draw.choice(("add", "mul", "mul", "matmul", "tanh", "relu", "sum", "detach"))
        inputs = [draw.choice(pool[-6:] + pool) for _ in range(1 + (operation in BINARY))]
        if operation == "detach" and draw.random() < 0.5:
            continue
        if operation in BINARY and not _fit(operation, *map(made.shape, inputs)):
            continue
        pool.append(made.tamed(operation, *inputs))
    made.loss_of([node for node in made.unused() if made.nodes[node][2]] or [made.leaf(n, m)])
    return made.graph("everything")


BINARY = ("add", "mul", "matmul")


def _fit(operation: str, one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    if operation == "matmul":
        return len(one) == len(other) == 2 and one[1] == other[0]
    try:
        return int(np.prod(np.broadcast_shapes(one, other), dtype=int)) <= ELEMENTS
    except ValueError:
        return False


def in_the_text() -> Graph:
    """The example of the exercise's text."""
    made = Drawing(random.Random())  # nothing is drawn
    x, b = made.given([1.0, 2.0], (2,)), made.given(3.0, ())
    made.op("sum", made.op("add", made.op("mul", x, b), x))
    return made.graph("everything")


def chain(draw: random.Random) -> Graph:
    """DEPTH operations, one after the other; nothing is shared but constants."""
    made = Drawing(draw)
    start = node = made.leaf(2, 3, sign=1)
    factors = [made.leaf(2, 3, grad=False, sign=1) for _ in range(4)]
    for factor in factors:
        made.nodes[factor][3][:] = made.values[factor] = 1 + made.values[factor] / DEPTH
    kept = [start]
    for step in range(DEPTH):
        operation = draw.choice(("mul", "mul", "relu", "tanh"))
        node = made.op(operation, node, *([draw.choice(factors)] if operation == "mul" else []))
        if step % (DEPTH // 10) == 0:
            kept.append(node)
    kept.append(made.loss_of([node]))
    return made.graph("chain", kept)


def ladder(draw: random.Random) -> Graph:
    """RUNGS rungs with two ways each. Only how often nodes are visited is looked at."""
    made = Drawing(draw)
    node = made.leaf(2)
    for _ in range(RUNGS):
        half = made.leaf(2, grad=False)
        node = made.op("add", made.op("mul", node, half), made.op("tanh", node))
    made.loss_of([node])
    return made.graph("ladder", [])


def graphs(seed: int) -> list[Graph]:
    """All graphs of a play, by kind in the order of KINDS."""
    draw = random.Random(seed)
    return [
        once(draw, square=False),
        once(draw, square=True),
        leaves_shared(draw),
        *(shared(draw, views) for views in (False, False, True)),
        *broadcast(draw),
        *(branches(draw) for _ in range(2)),
        in_the_text(),
        *(everything(draw) for _ in range(4)),
        chain(draw),
        ladder(draw),
    ]
