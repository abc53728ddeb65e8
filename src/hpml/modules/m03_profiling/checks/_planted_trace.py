"""One rank's training steps as a trace of Chrome's events, made so that its parts are known.

Nothing is measured: a rank is played on a clock of its own, and whatever passes the time says which
part of the step that time belongs to. Events have the names that PyTorch 2.13 gives them on a CPU
with Gloo. The rules by which time belongs to a part are those of `hpml.trace.profiler.shares`:

1. communication, where a message is under way and this rank computes nothing: exposed;
2. the innermost mark on the step's own thread;
3. other.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

PARTS = ("loading", "transforms", "forward", "backward", "optimizer", "communication", "other")
BASE = 4_543_130_604_000.0  # microseconds: where a machine's clock may stand
OPERATORS = ("aten::addmm", "aten::convolution", "aten::relu", "aten::mul", "aten::copy_")
LAYERS = ("AddmmBackward0", "ConvolutionBackward0", "ReluBackward0")
# By part, what marks it: the program's own words, or PyTorch's
OWN_WORDS = {"loading": "loading", "optimizer": "optimizer"}
PYTORCHS = {
    "loading": "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    "optimizer": "Optimizer.step#AdamW.step",
}
# Marks that are none of the five kinds, and of no step: their names hold words of these
OTHERS = (
    "loading_queue",
    "transforms_reset",
    "backward hooks",
    "optimizer_state",
    "rest of enumerate(DataLoader)#",
    "before Optimizer.step",
    "hooks of ProfilerStep#",
    "log of gloo:all_reduce or nccl:all_reduce",
)
BEHIND = "wait behind aten::mm"  # likewise: no operator

Event = dict[str, Any]


@dataclass(frozen=True)
class Parts:
    """A step's milliseconds by part, of PARTS, and those of communication behind computation."""

    number: int
    parts: dict[str, float]
    hidden: float

    @property
    def step(self) -> float:
        """Milliseconds of the step."""
        return sum(self.parts.values())


@dataclass(frozen=True)
class Planted:
    """A trace's events, in no order, and what is known of its steps, in theirs."""

    events: list[Event]
    steps: list[Parts]


@dataclass
class Clock:
    """A rank at work: `work` and `idle` pass time, `operator` and `mark` leave records of it.

    Times are microseconds. `messages` are under way now: how many. `words` name marks.
    """

    pick: random.Random
    words: dict[str, str]
    library: str = "gloo"  # that moves the messages
    pid: int = 4000
    at: float = BASE
    events: list[Event] = field(default_factory=list)
    messages: int = 0
    parts: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))
    hidden: float = 0.0

    @property
    def main(self) -> int:
        """The thread of the steps. It need not be the process's first."""
        return self.pid + (11 if self.words is PYTORCHS else 0)

    def record(self, name: str, category: str, start: float, end: float, thread: int = 0) -> None:
        """One complete event, of the main thread if none is named."""
        self.events.append(
            {
                "ph": "X",
                "cat": category,
                "name": name,
                "pid": self.pid,
                "tid": thread or self.main,
                "ts": round(start, 3),
                "dur": round(end - start, 3),
            }
        )

    def work(self, part: str, lasts: float) -> None:
        """This rank computes; a message under way is hidden."""
        self.parts[part] += lasts / 1e3
        self.hidden += lasts / 1e3 if self.messages else 0.0
        self.at += lasts

    def idle(self, part: str, lasts: float) -> None:
        """No operator runs: with a message under way, that is exposed."""
        self.parts["communication" if self.messages else part] += lasts / 1e3
        self.at += lasts

    def message(self, begin: float, thread: int, operation: str = "all_reduce") -> None:
        """A message ends that was under way since `begin`."""
        self.record(f"{self.library}:{operation}", "user_annotation", begin, self.at, thread)
        self.messages -= 1

    @contextmanager
    def mark(self, name: str, category: str = "user_annotation") -> Iterator[None]:
        """A record on the main thread around what is done inside."""
        start = self.at
        yield
        self.record(name, category, start, self.at)

    def operator(self, part: str, lasts: float, thread: int = 0) -> None:
        """An operator with operators inside, and one that takes no time."""
        name, start, end = self.pick.choice(OPERATORS), self.at, self.at + lasts
        self.record(name, "cpu_op", start, end, thread)
        inside = self.pick.uniform(0.3, 0.9) * lasts
        self.record("aten::empty", "cpu_op", start, start, thread)
        self.record("aten::as_strided", "cpu_op", start, start + inside, thread)
        self.record("aten::view", "cpu_op", start + inside, start + inside, thread)
        self.work(part, lasts)

    def between(self, least: float, most: float) -> float:
        """Milliseconds drawn, as microseconds."""
        return 1e3 * self.pick.uniform(least, most)


def planted(
    pick: random.Random,
    *,
    distributed: bool,
    words: dict[str, str] = OWN_WORDS,
    steps: int = 4,
    library: str = "gloo",
) -> Planted:
    """`steps` steps of different lengths. `words` are those of the marks: OWN_WORDS or PYTORCHS.

    There are steps 9 and 10: their numbers are in another order than their names. `library` moves
    the messages: gloo or nccl.

    Where it is `distributed`, gradients are averaged in buckets while backward runs on a thread of
    autograd's own, and a message about the loss crosses the border between two steps.
    """
    clock = Clock(
        pick,
        words=words,
        library=library,
        pid=pick.randint(2000, 9000),
        at=BASE + pick.randint(0, 10**6),
    )
    first = pick.randint(min(12 - steps, 9), 9)
    found = []
    late: float | None = None  # when the message began that crosses the border
    for number in range(first, first + steps):
        clock.parts, clock.hidden = dict.fromkeys(PARTS, 0.0), 0.0
        begin, scale = clock.at, pick.uniform(0.5, 2.0)
        _load(clock, scale, late)
        _forward(clock, scale, distributed)
        clock.idle("other", clock.between(0.2, 1.0))
        _backward(clock, scale, distributed)
        _update(clock, scale)
        late = None
        if distributed and number < first + steps - 1:
            late = clock.at
            clock.messages += 1
        clock.idle("other", clock.between(0.3, 1.5))
        clock.record(f"ProfilerStep#{number}", "user_annotation", begin, clock.at)
        found.append(Parts(number, clock.parts, clock.hidden))
        # Between two steps is time that is in none
        clock.parts = dict.fromkeys(PARTS, 0.0)
        clock.idle("other", clock.pick.uniform(5, 40))
    _noise(clock, found)
    shuffle(clock.events, pick)
    return Planted(clock.events, found)


def shuffle(events: list[Event], pick: random.Random) -> None:
    """Put the events in any order in which the steps are not in that of their time."""
    pick.shuffle(events)
    places = [place for place, one in enumerate(events) if one["name"].startswith("ProfilerStep#")]
    steps = [events[place] for place in places]
    if steps == sorted(steps, key=lambda step: step["ts"]):
        events[places[0]], events[places[-1]] = steps[-1], steps[0]


def _load(clock: Clock, scale: float, late: float | None) -> None:
    """Loading with transforms inside; a late message ends before the forward pass."""
    clock.idle("other", clock.between(0.4, 1.2))
    with clock.mark(clock.words["loading"]):
        clock.work("loading", scale * clock.between(1, 4))
        with clock.mark("transforms"):
            clock.operator("transforms", scale * clock.between(1, 3))
            clock.work("transforms", scale * clock.between(0.5, 2))
            if late is not None:
                clock.message(late, clock.main + 7)
        clock.work("loading", scale * clock.between(0.2, 1))


def _forward(clock: Clock, scale: float, distributed: bool) -> None:
    start = clock.at
    inner = "DistributedDataParallel.forward" if distributed else "CrossEntropyLoss.forward"
    with clock.mark("forward"), clock.mark(inner):
        if distributed:  # rank 0's buffers
            begin = clock.at
            clock.messages += 1
            clock.idle("forward", scale * clock.between(0.8, 1.5))
            clock.message(begin, clock.main + 8, "broadcast")
        for _ in range(4):
            clock.idle("forward", scale * clock.between(0.02, 0.3))
            clock.operator("forward", scale * clock.between(0.5, 3))
        for name in OTHERS:
            with clock.mark(name):
                clock.idle("forward", scale * clock.between(0.3, 0.5))
    # Another thread loads ahead meanwhile: that costs the step nothing
    middle = start + 0.6 * (clock.at - start)
    clock.record(clock.words["loading"], "user_annotation", start + 10, middle, clock.main + 3)
    clock.record("transforms", "user_annotation", start + 20, middle - 10, clock.main + 3)


def _backward(clock: Clock, scale: float, distributed: bool) -> None:
    """Autograd's nodes, on its own thread where messages are sent; those of two buckets."""
    thread = clock.main + 1 if distributed else clock.main
    sent: list[tuple[float, int]] = []  # begin and thread of messages under way
    with clock.mark("backward"):
        for node in range(6):
            layer, begin = clock.pick.choice(LAYERS), clock.at
            clock.idle("backward", scale * clock.between(0.1, 0.4))
            clock.operator("backward", scale * clock.between(0.5, 3), thread)
            for name in (f"autograd::engine::evaluate_function: {layer}", layer):
                clock.record(name, "cpu_op", begin, clock.at, thread)
            if distributed and node in (1, 3):
                # The call that hands the bucket over: during the second one the first is under way
                begin = clock.at
                clock.idle("backward", scale * clock.between(0.3, 0.8))
                clock.record("c10d::allreduce_", "cpu_op", begin, clock.at, thread)
                clock.messages += 1
                sent.append((clock.at, clock.main + 5 + len(sent)))
        for begin, gloo in sent:
            with clock.mark(BEHIND):
                clock.idle("backward", scale * clock.between(1, 5))
            clock.message(begin, gloo)
            clock.operator("backward", scale * clock.between(0.1, 0.4))
        clock.idle("backward", scale * clock.between(0.02, 0.2))


def _update(clock: Clock, scale: float) -> None:
    clock.idle("other", clock.between(0.05, 0.2))
    name = clock.words["optimizer"]
    with clock.mark(name):
        clock.idle("optimizer", scale * clock.between(0.02, 0.1))
        inner = PYTORCHS["optimizer"] if name == OWN_WORDS["optimizer"] else "aten::_foreach_add_"
        with clock.mark(inner, "user_annotation" if inner.startswith("Opt") else "cpu_op"):
            clock.operator("optimizer", scale * clock.between(0.5, 2))
        clock.idle("optimizer", scale * clock.between(0.02, 0.1))
    with clock.mark("Optimizer.zero_grad#AdamW.zero_grad"):
        clock.idle("optimizer", scale * clock.between(0.1, 0.4))


def _noise(clock: Clock, found: list[Parts]) -> None:
    """What else is in a trace: names of threads, allocations, arrows, marks that take no time."""
    more: list[Event] = [
        {"ph": "M", "name": "process_name", "pid": clock.pid, "tid": 0, "args": {"name": "python"}}
    ]
    for event in clock.events[::9]:
        place = {"pid": event["pid"], "tid": event["tid"], "ts": event["ts"]}
        more.append({"ph": "i", "name": "[memory]", "cat": "cpu_instant_event", **place})
        more.append({"ph": "s", "name": "fwdbwd", "cat": "fwdbwd", "id": len(more), **place})
    last = max(event["ts"] + event["dur"] for event in clock.events)
    clock.record("forward", "user_annotation", last, last)
    clock.record("PyTorch Profiler (0)", "Trace", BASE, last, clock.main + 9)
    clock.events += more
