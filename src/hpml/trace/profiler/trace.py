"""What one rank's profiler recorded, as columns of numbers."""

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Step:
    """One profiled step, as torch.profiler marks it ("ProfilerStep#3")."""

    number: int
    start: float  # seconds on the trace's clock
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


@dataclass(frozen=True)
class Links:
    """Which forward event led to which backward event; m links, the two sides in the same order.

    A side is the time (seconds) at which its event starts. torch.profiler writes both as flow
    events of the category "fwdbwd".
    """

    forward: np.ndarray  # float64 [m]
    backward: np.ndarray  # float64 [m]


@dataclass(frozen=True)
class Allocations:
    """Memory that was allocated and freed, sorted by time; m records (`profile_memory=True`)."""

    at: np.ndarray  # float64 [m], seconds
    change: np.ndarray  # int64 [m], bytes; negative where memory was freed
    allocated: np.ndarray  # int64 [m], bytes that the allocator holds for tensors after it
    device: np.ndarray  # int32 [m], an index into `devices`
    devices: tuple[str, ...]  # "cpu", "cuda:0"


NO_LINKS = Links(np.zeros(0), np.zeros(0))
NO_ALLOCATIONS = Allocations(
    np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int32), ()
)


@dataclass(frozen=True)
class Trace:
    """The events that one rank's profiler recorded, sorted by start; n of them.

    Times are seconds on that rank's own clock. `name[i]` is an index into `names`, `category[i]`
    into `categories` ("cpu_op", "user_annotation", "kernel": the trace's own words), `thread[i]`
    into `threads` (the trace's own ids: (pid, tid); a GPU's stream is a thread too). Where two
    events start at the same time, the longer one is first, so that what encloses comes first.
    """

    rank: int | None  # None: the program was not distributed
    world_size: int | None
    start: np.ndarray  # float64 [n]
    duration: np.ndarray  # float64 [n]
    name: np.ndarray  # int32 [n]
    category: np.ndarray  # int32 [n]
    thread: np.ndarray  # int32 [n]
    names: tuple[str, ...]
    categories: tuple[str, ...]
    threads: tuple[tuple[str, str], ...]
    steps: tuple[Step, ...]
    thread_names: tuple[str, ...] = ()  # "thread 7479 (pt_gloo_runloop)", as long as `threads`
    shape: np.ndarray | None = None  # int32 [n], an index into `shapes`; None: not recorded
    shapes: tuple[str, ...] = ()  # "[[64, 512], [512]]": an operator's inputs; "" where unknown
    correlation: np.ndarray | None = None  # int64 [n]: same for a launch and its kernel; 0: none
    links: Links = field(default=NO_LINKS)
    allocations: Allocations = field(default=NO_ALLOCATIONS)
    epoch: int = 0  # nanoseconds since 1970 at which this clock is 0
    skipped: int = 0  # events of the file that could not be read
    first_skipped: str = ""  # where the first of them is, and why: "byte 1,234: an event without…"

    @property
    def end(self) -> np.ndarray:
        """When each event ends, in seconds; float64 [n]."""
        return self.start + self.duration

    def __len__(self) -> int:
        return len(self.start)

    def named(self, *beginnings: str) -> np.ndarray:
        """Which events have a name that begins with one of these; bool [n]."""
        return _flags(self.names, lambda name: name.startswith(beginnings))[self.name]

    def of(self, *categories: str) -> np.ndarray:
        """Which events are of one of these categories; bool [n]."""
        return _flags(self.categories, lambda name: name in categories)[self.category]

    @property
    def main_thread(self) -> int:
        """The thread that calls `prof.step()`, or else the one with most events; an index."""
        marks = self.named("ProfilerStep#") & self.of("user_annotation")
        threads = self.thread[marks] if marks.any() else self.thread
        return int(np.bincount(threads).argmax()) if len(threads) else 0


def _flags(words, asked) -> np.ndarray:
    return np.fromiter((asked(word) for word in words), bool, len(words))
