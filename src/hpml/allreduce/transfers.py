"""An all-reduce as data: steps of transfers between ranks, of parts of one tensor."""

from collections import Counter
from dataclasses import dataclass


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


@dataclass(frozen=True)
class Load:
    """The most that one rank has to do in a step; a rank sends and receives at the same time.

    `messages` and `parts` are those that it sends or those that it receives, whichever are more;
    `added` are the parts that it adds up.
    """

    messages: int
    parts: int
    added: int


@dataclass(frozen=True)
class Schedule:
    """What every rank does: `steps` one after another, on a tensor cut into `parts` equal parts."""

    algorithm: str
    world_size: int
    parts: int
    steps: tuple[Step, ...]

    def cuts(self, length: int) -> list[int]:
        """Where parts of a tensor of `length` elements begin, and where the last one ends.

        Part k is [cuts[k], cuts[k + 1]); lengths of parts differ by one element at most.
        """
        return [part * length // self.parts for part in range(self.parts + 1)]

    def sent_parts(self, rank: int) -> int:
        """How many parts `rank` sends in all."""
        return sum(t.last - t.first for step in self.steps for t in step if t.source == rank)

    def loads(self) -> list[Load]:
        """What each step asks of its busiest rank."""
        return [_load(step) for step in self.steps]


def _load(step: Step) -> Load:
    messages: Counter[tuple[str, int]] = Counter()
    parts: Counter[tuple[str, int]] = Counter()
    added: Counter[int] = Counter()
    for transfer in step:
        size = transfer.last - transfer.first
        for end in (("sends", transfer.source), ("receives", transfer.destination)):
            messages[end] += 1
            parts[end] += size
        if transfer.adds:
            added[transfer.destination] += size
    return Load(*(max(count.values(), default=0) for count in (messages, parts, added)))
