"""Timelines as Horovod 0.28.1 writes them (horovod/common/timeline.cc), and their contents.

Simulates its background thread: in each cycle it learns which tensors the ranks have submitted,
packs those that all ranks have into messages up to the fusion threshold, and copies each message
together, sends it and copies it back. Events are in order of time. One timeline also names threads,
which Horovod does not: Chrome's format has more metadata with a name than a process's.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache

_TRANSFER = {"ALLREDUCE": "ALLREDUCE", "BROADCAST": "BCAST"}  # after the library's name
CYCLE = 1000  # microseconds


@dataclass(frozen=True)
class Interval:
    """A phase of a tensor, in seconds since the start."""

    phase: str
    tensor: str
    start: float
    end: float


@dataclass(frozen=True)
class Planted:
    """A timeline's text, and what a correct reader returns for it."""

    name: str  # for messages
    text: str
    cut: bool
    tensors: frozenset[str]
    intervals: tuple[Interval, ...]  # that have ended
    collectives: tuple[tuple[str, ...], ...]  # that have ended
    broadcast: frozenset[str]  # names of tensors that were broadcast

    def chosen(self, phases: Callable[[str], bool]) -> list[Interval]:
        """The intervals for whose phase's name `phases` is true."""
        return [interval for interval in self.intervals if phases(interval.phase)]


def covered(intervals: Iterable[Interval]) -> float:
    """Seconds covered by at least one of the intervals."""
    total, reached = 0.0, 0.0
    for interval in sorted(intervals, key=lambda interval: interval.start):
        total += max(0.0, interval.end - max(interval.start, reached))
        reached = max(reached, interval.end)
    return total


def summed(intervals: Iterable[Interval]) -> float:
    """The sum of the intervals' seconds; overlaps count several times."""
    return sum(interval.end - interval.start for interval in intervals)


@dataclass
class _Writer:
    """Writes events, and records the totals after each event."""

    draw: random.Random
    now: int = 0  # microseconds
    text: str = ""
    pids: dict[str, int] = field(default_factory=dict)
    open: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    intervals: list[Interval] = field(default_factory=list)
    collectives: list[tuple[str, ...]] = field(default_factory=list)
    travelling: bool = False
    stands: bool = False  # the clock
    threads: bool = False  # are named
    # After each event: text length, intervals, collectives, and whether a transfer is under way
    written: list[tuple[int, int, int, bool]] = field(default_factory=list)

    def pause(self, least: int, most: int) -> None:
        self.now += self.draw.randint(least, most)

    def begin(self, tensor: str, phase: str) -> None:
        self._moment()
        self.open.setdefault(tensor, []).append((phase, self.now))
        self._event(f'"ph": "B", "name": "{phase}"', tensor)

    def end(self, tensor: str, arguments: str = "") -> None:
        self._moment()
        phase, start = self.open[tensor].pop()
        self.intervals.append(Interval(phase, tensor, start / 1e6, self.now / 1e6))
        self._event('"ph": "E"', tensor, f', "args": {{{arguments}}}' if arguments else "")

    def ready(self, tensor: str, rank: int) -> None:
        self._moment()
        self._event(f'"ph": "X", "name": "{rank}"', tensor, ', "dur": 0')

    def marker(self) -> None:
        self._moment()
        self._append(f'{{"ph": "i", "name": "CYCLE_START", "ts": {self.now}, "s": "g"}}')

    def _moment(self) -> None:
        self.now += 0 if self.stands else self.draw.choice((0, 0, 1, 2))

    def _event(self, what: str, tensor: str, more: str = "") -> None:
        before = "" if tensor in self.pids else self._introduction(tensor)
        self._append(f'{before}{{{what}, "ts": {self.now}, "pid": {self.pids[tensor]}{more}}}')

    def _introduction(self, tensor: str) -> str:
        """Introduce a tensor, which a timeline shows as a process."""
        self.pids[tensor] = pid = len(self.pids) + 1
        text = _metadata(pid, f'"name": "{tensor}"', f'"sort_index": {pid}')
        if self.threads:
            queue = '"args": {"name": "queue"}'
            text += f'{{"name": "thread_name", "ph": "M", "pid": {pid}, {queue}}},\n'
        return text

    def _append(self, event: str) -> None:
        """The list is closed after each event; the next event overwrites the bracket."""
        if not self.text:
            start = '"start_time_since_epoch_in_micros":1700000000000000'
            self.text = "[\n" + _metadata(0, start, '"sort_index": 0') + event + "]"
        else:
            self.text = f"{self.text[:-1]},{event}]"
        self.written.append(
            (len(self.text) - 1, len(self.intervals), len(self.collectives), self.travelling)
        )


def _metadata(pid: int, name: str, order: str) -> str:
    return (
        f'{{"name": "process_name", "ph": "M", "pid": {pid}, "args": {{{name}}}}},\n'
        f'{{"name": "process_sort_index", "ph": "M", "pid": {pid}, "args": {{{order}}}}},\n'
    )


@dataclass(frozen=True)
class _Job:
    """The simulated job: its library, its ranks, its tensors and their timing."""

    library: str
    ranks: int
    sizes: dict[str, int]  # elements of each tensor, in the order in which backward reaches them
    threshold: int  # largest number of elements in a message
    steps: int
    broadcasts: bool = False
    markers: bool = False
    waits: bool = False  # data may still be computed on the device when the ranks agree
    threads: bool = False


def _played(draw: random.Random, job: _Job) -> _Writer:
    out = _Writer(draw, now=draw.randint(100, 5000), threads=job.threads)
    rounds = [("ALLREDUCE", "allreduce")] * job.steps
    if job.broadcasts:
        rounds = [("BROADCAST", "broadcast"), *rounds]
    for kind, prefix in rounds:
        names = [f"{prefix}.{name}" for name in job.sizes]
        _play_round(out, job, kind, names, dict(zip(names, job.sizes.values(), strict=True)))
        out.pause(500, 3000)
    return out


def _play_round(
    out: _Writer, job: _Job, kind: str, names: Sequence[str], sizes: dict[str, int]
) -> None:
    draw = out.draw
    late = [draw.randint(0, 1500) for _ in range(job.ranks)]
    gap = draw.randint(200, 600)
    requests = [
        (out.now + number * gap + late[rank] + draw.randint(0, 100), rank, name)
        for number, name in enumerate(names)
        for rank in range(job.ranks)
    ]
    # The last rank submits the first tensor late: others are negotiated meanwhile, from end to end
    rank = late.index(max(late))
    requests[rank] = (requests[rank][0] + 5 * gap, rank, names[0])
    heard: dict[str, int] = dict.fromkeys(names, 0)
    while requests:
        out.now = max(out.now, min(requests)[0]) + draw.randint(0, CYCLE)
        if job.markers:
            out.marker()
        arrived = sorted(r for r in requests if r[0] <= out.now)
        requests = [request for request in requests if request not in arrived]
        agreed = []
        for _, rank, name in arrived:
            if not heard[name]:
                out.begin(name, f"NEGOTIATE_{kind}")
            out.ready(name, rank)
            heard[name] += 1
            if heard[name] == job.ranks:
                out.end(name)
                agreed.append(name)
        messages = _messages(agreed, sizes, job.threshold if kind == "ALLREDUCE" else 0)
        for before, message in zip([[], *messages], messages, strict=False):
            _carry_out(out, job, kind, message, sizes, at_once=len(before) == len(message) == 1)


def _messages(names: Sequence[str], sizes: dict[str, int], threshold: int) -> list[list[str]]:
    """Pack neighbouring tensors into messages up to `threshold` elements."""
    messages: list[list[str]] = []
    room = 0
    for name in names:
        if not messages or sizes[name] > room:
            messages.append([])
            room = threshold
        messages[-1].append(name)
        room -= sizes[name]
    return messages


def _carry_out(
    out: _Writer,
    job: _Job,
    kind: str,
    message: Sequence[str],
    sizes: dict[str, int],
    *,
    at_once: bool,
) -> None:
    """With `at_once`, data travel from the end of the last message on, if nothing is to be done."""

    def phase(name: str, least: int, most: int) -> None:
        for tensor in message:
            out.begin(tensor, name)
        out.pause(least, most)
        for tensor in message:
            out.end(tensor)

    out.stands = at_once
    for tensor in message:
        out.begin(tensor, kind)
    fused, elements = len(message) > 1, sum(sizes[name] for name in message)
    if fused and "INIT_FUSION_BUFFER" not in {interval.phase for interval in out.intervals}:
        phase("INIT_FUSION_BUFFER", 20, 90)
    if job.waits:
        phase("WAIT_FOR_DATA", 20, 400)
    if fused:
        phase("MEMCPY_IN_FUSION_BUFFER", 5, 20 + elements // 500)
    for tensor in message:
        out.travelling = True
        out.begin(tensor, f"{job.library}_{_TRANSFER[kind]}")
    out.stands = False
    out.pause(150, 300 + elements // 20)
    for tensor in message:
        if tensor == message[-1]:
            out.collectives.append(tuple(message))
        out.end(tensor)
    out.travelling = False
    if fused:
        phase("MEMCPY_OUT_FUSION_BUFFER", 5, 20 + elements // 500)
    out.stands = not fused
    for tensor in message:
        out.end(tensor, f'"dtype": "float32", "shape": "[{sizes[tensor]}]"')
    out.stands = False


def _finding(name: str, out: _Writer, event: int | None = None, more: int = 0) -> Planted:
    """The timeline and its contents: all of it, or the events before number `event`.

    `more` characters of that event itself are also in the file.
    """
    if event is None:
        length, intervals, collectives, _ = out.written[-1]
        text = out.text
    else:
        length, intervals, collectives, _ = out.written[event - 1]
        text = out.text[: length + more]
    return Planted(
        name,
        text,
        event is not None,
        frozenset(out.pids),
        tuple(out.intervals[:intervals]),
        tuple(out.collectives[:collectives]),
        frozenset(tensor for tensor in out.pids if tensor.startswith("broadcast.")),
    )


def _without_events(name: str, out: _Writer, length: int) -> Planted:
    """The timeline of a job that was killed at once, so many characters of it."""
    return Planted(name, out.text[:length], True, frozenset(out.pids), (), (), frozenset())


_NAMES = [
    f"{layer}.{kind}"
    for layer in ("stem", "body.0.conv", "body.0.norm", "body.1.conv", "body.1.norm", "head")
    for kind in ("weight", "bias")
]


def _tensors(draw: random.Random, many: int) -> dict[str, int]:
    """Number of elements by name: weights are large and biases small."""
    chosen = reversed(sorted(draw.sample(range(len(_NAMES)), many)))
    return {
        _NAMES[n]: draw.randint(2000, 9000) if n % 2 == 0 else draw.randint(16, 256) for n in chosen
    }


@cache
def planted(seed: int) -> tuple[Planted, ...]:
    """A small timeline, for readable messages; larger ones; some cut off."""
    draw = random.Random(seed)
    gloo = _small(draw)
    whole = [
        _finding("a small timeline", gloo),
        _finding("with Gloo, 3 ranks", _large(draw, "GLOO", 3, markers=True)),
        _finding("with MPI, 2 ranks", _large(draw, "MPI", 2, threads=True)),
        _finding("with NCCL, 4 ranks", _large(draw, "NCCL", 4, waits=True)),
    ]
    last = len(gloo.written)
    out = _large(draw, "GLOO", 2)
    return (
        *whole,
        _finding("without its last bracket", gloo, last),
        _finding("cut while data travel", out, *_cut(out, while_travelling=True)),
        _finding("cut in the middle of an event", out, *_cut(out, while_travelling=False)),
        _without_events("cut after an event that names a tensor", out, out.text.index("},") + 20),
        _without_events("cut in the middle of its first event", out, 20),
    )


def _small(draw: random.Random) -> _Writer:
    """One step on two ranks, with a message of several tensors and one of a single tensor."""
    while True:
        out = _played(draw, _Job("GLOO", 2, _tensors(draw, 4), 9500, steps=1))
        lengths = [len(message) for message in out.collectives]
        if 1 in lengths and max(lengths) > 1 and _negotiations_overlap(out):
            return out


def _large(draw: random.Random, library: str, ranks: int, **more: bool) -> _Writer:
    """A broadcast of the weights, then some steps with messages of one and of many tensors.

    One tensor has more elements than a message, so that it is alone in each step.
    """
    while True:
        sizes = _tensors(draw, 9)
        sizes[max(sizes, key=sizes.__getitem__)] = draw.randint(12_001, 14_000)
        job = _Job(library, ranks, sizes, 12_000, draw.randint(2, 3), True, **more)
        out = _played(draw, job)
        lengths = [
            len(message) for message in out.collectives if message[0].startswith("allreduce.")
        ]
        if 1 in lengths and max(lengths) > 2 and _negotiations_overlap(out):
            return out


def _negotiations_overlap(out: _Writer) -> bool:
    """Whether the sum of the negotiations is well above the time that they cover."""
    negotiations = [i for i in out.intervals if i.phase.startswith("NEGOTIATE_")]
    return covered(negotiations) < 0.95 * summed(negotiations)


def _cut(out: _Writer, while_travelling: bool) -> tuple[int, int]:
    """Where to cut: the number of the event, and how many of its characters to keep.

    Either during the transfer of a message of several tensors, before any of them has ended; or
    between the two braces that close the last event of a tensor.
    """
    candidates = []
    for number in range(len(out.written) // 2, len(out.written)):
        begin, end = out.written[number - 1][0], out.written[number][0]
        event = out.text[begin:end]
        going_on = out.written[number - 1][3] and out.written[number][3]
        if while_travelling and going_on and '"ph": "B"' in event:
            candidates.append((number, out.draw.randint(2, len(event) - 2)))
        elif not while_travelling and event.endswith("}}"):
            candidates.append((number, len(event) - 1))
    return out.draw.choice(candidates)
