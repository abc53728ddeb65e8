"""Traces of several ranks with a known truth: a data parallel job, played by a simulator.

Each rank runs a program: phases with ops in them, collectives that are launched and waited for.
Each rank carries out its collectives in the order of their launch, on one or more threads, as
Gloo does; a collective ends on all ranks when the last one has joined and the data have moved. Out
come the events that PyTorch 2.13's profiler exports for such a job (names, categories and threads
as with DistributedDataParallel and Gloo on CPUs), on a clock of each rank's own, and what really
happened, on one clock.

All times are whole microseconds; those of events are floats, as in a file.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

Event = dict[str, Any]
Span = tuple[int, int]  # begin and end, microseconds on the common clock
JITTER = 8  # microseconds by which ranks record the end of one collective late, at most


@dataclass(frozen=True)
class Begin:
    """A mark begins: of a phase (`record_function`), of a step, of a function of PyTorch's.

    With `op` it is an operator on the main thread, in which anything may happen.
    """

    name: str
    op: bool = False


@dataclass(frozen=True)
class End:
    """The mark or the operator that began last ends."""


@dataclass(frozen=True)
class Op:
    """An operator runs on the main thread, with `inner` ops nested in it, one after the other.

    With `thread`, it runs there instead, while the main thread goes on.
    """

    name: str
    duration: int
    inner: tuple[str, ...] = ()
    thread: int = 0


@dataclass(frozen=True)
class Idle:
    """The main thread works, or waits for data, and no op shows it."""

    duration: int


@dataclass(frozen=True)
class Launch:
    """A collective is launched; its data take `transfer` once all have joined."""

    name: str  # "all_reduce"
    transfer: int


@dataclass(frozen=True)
class Wait:
    """The main thread waits for all collectives that it has launched."""


Item = Begin | End | Op | Idle | Launch | Wait
Program = Callable[[int], Iterator[Item]]  # of a rank


@dataclass(frozen=True)
class Collective:
    """One collective, as one rank carried it out."""

    begin: int  # when this rank began
    joined: int  # when the last rank had begun
    end: int
    thread: int
    name: str = "all_reduce"


@dataclass(eq=False)
class PlantedRank:
    """What really happened on a rank, on the common clock, and the events that it recorded."""

    rank: int
    events: list[Event] = field(default_factory=list)
    offset: float = 0.0  # an event's time minus the common clock's
    steps: dict[int, Span] = field(default_factory=dict)  # by number, as in "ProfilerStep#7"
    marks: list[tuple[str, Span]] = field(default_factory=list)  # all but steps
    ops: list[tuple[str, int, Span]] = field(default_factory=list)  # (name, thread, span)
    collectives: list[Collective] = field(default_factory=list)  # in the order of launches


@dataclass
class _Player:
    """One rank, part way through its program."""

    program: Iterator[Item]
    made: PlantedRank
    now: int = 0
    open: list[tuple[Begin, int]] = field(default_factory=list)
    launched: list[tuple[int, str, int]] = field(default_factory=list)  # (time, name, transfer)
    waits_for: int = 0  # this many collectives are to have ended
    free: list[int] = field(default_factory=list)  # when each of Gloo's threads is

    def play(self) -> bool:
        """Carry out items up to one that must wait; whether the program has ended."""
        while True:
            if self.waits_for > len(self.made.collectives):
                return False
            ended = [one.end for one in self.made.collectives[: self.waits_for]]
            self.now = max([self.now, *ended])
            self.waits_for = 0
            item = next(self.program, None)
            if item is None:
                return True
            self._carry_out(item)

    def _carry_out(self, item: Item) -> None:
        match item:
            case Begin():
                self.open.append((item, self.now))
            case End():
                begun, begin = self.open.pop()
                self._end(begun, begin)
            case Op(name, duration, inner, thread):
                self._op(name, self.now, self.now + duration, thread)
                length = (duration - 2) // max(1, len(inner))
                for number, one in enumerate(inner):
                    start = self.now + 1 + number * length
                    self._op(one, start, start + length - 1, thread)
                if not thread:
                    self.now += duration
            case Idle(duration):
                self.now += duration
            case Launch(name, transfer):
                self.launched.append((self.now, name, transfer))
            case Wait():
                self.waits_for = len(self.launched)

    def _end(self, begun: Begin, begin: int) -> None:
        if begun.op:
            self._op(begun.name, begin, self.now)
            return
        self._event("user_annotation", begun.name, begin, self.now)
        if begun.name.startswith("ProfilerStep#"):
            self.made.steps[int(begun.name.partition("#")[2])] = (begin, self.now)
        else:
            self.made.marks.append((begun.name, (begin, self.now)))

    def _op(self, name: str, begin: int, end: int, thread: int = 0) -> None:
        self._event("cpu_op", name, begin, end, thread)
        self.made.ops.append((name, thread, (begin, end)))

    def _event(self, category: str, name: str, begin: int, end: int, thread: int = 0) -> None:
        pid = 2000 + 31 * self.made.rank
        times = {"ts": begin, "dur": end - begin}
        event = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": pid + thread}
        self.made.events.append(event | times)


PHASES = ("loading", "transforms", "forward", "backward", "optimizer")


def play(
    seed: int, world_size: int, program: Program, *, threads: int = 1, library: str = "gloo"
) -> list[PlantedRank]:
    """Play the program on each rank. `threads` is how many collectives a rank runs at a time.

    `library` carries them out, and names their events: gloo or nccl. All ranks launch the same
    collectives in the same order. Raises ValueError where they do not, or wait for what is never
    launched.
    """
    draw = random.Random(seed)
    players = [
        _Player(program(rank), PlantedRank(rank), free=[0] * threads) for rank in range(world_size)
    ]
    while not all([player.play() for player in players]):
        if not _end_collectives(players, library, draw):
            raise ValueError("the ranks wait for collectives that not all of them launch")
    _end_collectives(players, library, draw)
    if len({len(player.launched) for player in players}) > 1:
        raise ValueError("the ranks launch different numbers of collectives")
    for player in players:
        _record(player.made, draw)
    return [player.made for player in players]


def _end_collectives(players: Sequence[_Player], library: str, draw: random.Random) -> int:
    """End each collective that all ranks have launched by now; their number."""
    first = len(players[0].made.collectives)
    last = min(len(player.launched) for player in players)
    for number in range(first, last):
        begins = []
        for player in players:
            launched, name, transfer = player.launched[number]
            thread = min(range(len(player.free)), key=player.free.__getitem__)
            ended = player.made.collectives
            earliest = ended[-1].begin + 1 if ended else 0  # so that their order is plain
            begins.append((max(launched, player.free[thread], earliest), thread))
        joined = max(begin for begin, _ in begins)
        for player, (begin, thread) in zip(players, begins, strict=True):
            end = joined + transfer + draw.randint(0, JITTER)
            player.free[thread] = end + 3
            player.made.collectives.append(Collective(begin, joined, end, thread, name))
            player._event("user_annotation", f"{library}:{name}", begin, end, 100 + thread)
    return last - first


def _record(made: PlantedRank, draw: random.Random) -> None:
    """Give the events the rank's own clock, those that say nothing of time, and any order."""
    made.offset = draw.randint(10**9, 10**12) + draw.randint(0, 999) / 1000
    pid = made.events[0]["pid"]
    last = max(event["ts"] + event["dur"] for event in made.events)
    span = {"pid": "Spans", "tid": "PyTorch Profiler", "ts": 0, "dur": last}
    made.events.append({"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)"} | span)
    flow = {"cat": "fwdbwd", "name": "fwdbwd", "id": 7, "pid": pid, "tid": pid}
    made.events.append({"ph": "s", "ts": last // 3} | flow)
    made.events.append({"ph": "f", "bp": "e", "ts": last // 2} | flow)
    for event in made.events:
        event["ts"] = round(event["ts"] + made.offset, 3)
        if "dur" in event:
            event["dur"] = float(event["dur"])
    name = {"name": "process_name", "args": {"name": "python"}}
    made.events.append({"ph": "M", "pid": pid, "tid": 0, "ts": made.offset} | name)
    draw.shuffle(made.events)
