"""An all-reduce as data: steps of transfers between ranks, of parts of one tensor."""

from collections import Counter
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Transfer:
    """Rank `source` sends the parts [first, last) of its tensor to rank `destination`.

    There they are added to what that rank has (`adds`), or take its place.
    """

    source: int
    destination: int
    first: int
    last: int
    adds: bool


Step = tuple[Transfer, ...]  # transfers under way at the same time


class Cost(Protocol):
    """`hpml.predict.collectives.Cost`: seconds per message, per byte sent, per byte added up."""

    @property
    def alpha(self) -> float: ...

    @property
    def beta(self) -> float: ...

    @property
    def gamma(self) -> float: ...


@dataclass(frozen=True)
class Load:
    """The busiest rank's work in a step; a rank sends and receives at the same time.

    `messages` and `parts` are those that it sends or receives, whichever are more; `added` are the
    parts that it adds up. `crossing` are the messages and parts that leave or enter one node.
    """

    messages: int
    parts: int
    added: int
    crossing: tuple[int, int]


@dataclass(frozen=True)
class Schedule:
    """`steps` one after another, on a tensor cut into `parts` equal parts."""

    algorithm: str
    world_size: int
    parts: int
    steps: tuple[Step, ...]

    def cuts(self, length: int) -> list[int]:
        """Where parts of a tensor of `length` elements begin, and where the last one ends.

        Part k is [cuts[k], cuts[k + 1]); lengths of parts differ by one element at most.
        """
        return [part * length // self.parts for part in range(self.parts + 1)]

    @property
    def messages(self) -> int:
        """How many messages all ranks send together."""
        return sum(map(len, self.steps))

    def loads(self, per_node: int | None = None) -> list[Load]:
        """Each step's load of its busiest rank, and of the busiest node of `per_node` ranks."""
        return [_load(step, per_node or self.world_size) for step in self.steps]

    def seconds(
        self, nbytes: float, cost: Cost, per_node: int | None = None, across: Cost | None = None
    ) -> float:
        """Seconds of `nbytes` by the α–β–γ model: the sum over steps, each of its busiest rank.

        `across` has α and β of the link that the `per_node` ranks of a node share to reach other
        nodes: a step with messages over it takes that link's α and β where they are more.
        """
        total = 0.0
        for load in self.loads(per_node):
            alpha, sending = cost.alpha, load.parts * cost.beta
            if across is not None and load.crossing[0]:
                alpha = max(alpha, across.alpha)
                sending = max(sending, load.crossing[1] * across.beta)
            part = nbytes / self.parts
            total += load.messages * alpha + part * (sending + load.added * cost.gamma)
        return total


def _load(step: Step, per_node: int) -> Load:
    messages: Counter[tuple[str, int]] = Counter()
    parts: Counter[tuple[str, int]] = Counter()
    added: Counter[int] = Counter()
    crossing: tuple[Counter[tuple[str, int]], ...] = (Counter(), Counter())
    for transfer in step:
        size = transfer.last - transfer.first
        for end in (("sends", transfer.source), ("receives", transfer.destination)):
            messages[end] += 1
            parts[end] += size
        if transfer.adds:
            added[transfer.destination] += size
        nodes = transfer.source // per_node, transfer.destination // per_node
        if nodes[0] != nodes[1]:
            for end in (("sends", nodes[0]), ("receives", nodes[1])):
                crossing[0][end] += 1
                crossing[1][end] += size
    across = _most(crossing[0]), _most(crossing[1])
    return Load(_most(messages), _most(parts), _most(added), across)


def _most(count: Counter) -> int:
    return max(count.values(), default=0)
