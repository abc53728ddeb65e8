"""Read what torch.profiler wrote: `export_chrome_trace`, `tensorboard_trace_handler`.

JSON, packed with gzip or not. What Kineto writes, and in which units, is in
https://github.com/pytorch/kineto/blob/main/libkineto/src/output_json.cpp: times in microseconds,
`ph` "X" for an event with a duration, "i" for an instant, "s" and "f" for the two ends of a link,
"M" for names.
"""

import os
import warnings
from dataclasses import dataclass, field

import numpy as np

from hpml.trace.profiler.trace import NO_ALLOCATIONS, NO_LINKS, Allocations, Links, Step, Trace
from hpml.trace.profiler.trace_file import Event, TraceFile

STEP = "ProfilerStep#"
MEMORY = "[memory]"
DEVICES = {0: "cpu", 1: "cuda"}  # c10::DeviceType
LINKS = ("fwdbwd", "forward_backward")  # the latter until PyTorch 1.11, and so are those below
FORMER = {
    "Operator": "cpu_op",
    "Runtime": "cuda_runtime",
    "Kernel": "kernel",
    "Memcpy": "gpu_memcpy",
    "Memset": "gpu_memset",
}

MICROSECOND = 1e-6
MAX_MICROSECONDS = 4e15  # since 1970, as PyTorch wrote until 2.3; a larger one is not a time


def read(path: str | os.PathLike[str]) -> Trace:
    """The trace in a file, within 1 GiB of memory; 100 MB take about two seconds.

    An event that cannot be read is skipped: a UserWarning says how many, and where the first is.

    Raises UserError, one line with the file, what is wrong with it and what to do, where the file
    is not a trace, is cut off or damaged, or larger than `hpml.trace.profiler.trace_file` allows.
    """
    file = TraceFile(path)
    columns = _Columns(file)
    for block in file.blocks():
        columns.add(block)
    if file.skipped:
        warnings.warn(
            f"trace: {file.path}: events skipped: {file.skipped:,}, the first at "
            f"{file.first_skipped}",
            stacklevel=2,
        )
    return columns.trace()


class _Index(dict):
    """Distinct values, numbered in the order in which they came."""

    def __missing__(self, value):
        self[value] = number = len(self)
        return number


@dataclass
class _Columns:
    """The columns of a trace while its file is read, one array for each block."""

    file: TraceFile
    names: _Index = field(default_factory=_Index)
    categories: _Index = field(default_factory=_Index)
    threads: _Index = field(default_factory=_Index)
    shapes: _Index = field(default_factory=lambda: _Index({b"": 0}))
    thread_names: dict[int, str] = field(default_factory=dict)
    events: list[np.ndarray] = field(default_factory=list)  # see EVENT
    memory: list[np.ndarray] = field(default_factory=list)  # see MEMORY_RECORD
    ends: dict[str, list[np.ndarray]] = field(default_factory=lambda: {"s": [], "f": []})
    devices: _Index = field(default_factory=_Index)

    def add(self, block: list[Event]) -> None:
        found = _Found()
        for index, event in enumerate(block):
            try:
                self._add(event, found)
            except _OddError as odd:
                self.file.skip(index, str(odd))
        self.events.append(np.array(found.events, EVENT))
        self.memory.append(np.array(found.memory, MEMORY_RECORD))
        for side, ends in found.ends.items():
            self.ends[side].append(np.array(ends, LINK_END))

    def _add(self, event: Event, found: "_Found") -> None:
        if event.ph == "X":
            if event.cat != "Trace":  # the profiler's own span around everything
                found.events.append(self._event(event))
        elif event.ph == "i":
            if event.name == MEMORY and event.args is not None:
                found.memory.append(self._memory(event))
        elif event.ph in found.ends:
            if event.cat in LINKS:
                found.ends[event.ph].append((_number(event.id), _at(event)))
        elif not event.ph and event.name:
            raise _OddError(f"an event of no kind ({event.name[:40]!r})")
        elif event.ph == "M" and event.name == "thread_name" and event.args is not None:
            self.thread_names[self._thread(event)] = event.args.name

    def _thread(self, event: Event) -> int:
        return self.threads[str(event.pid), str(event.tid)]

    def _event(self, event: Event) -> tuple:
        start = _at(event)
        if event.dur is None or not 0 <= event.dur < MAX_MICROSECONDS:
            raise _OddError(
                f"an event with no, a negative or an endless duration ({_brief(event)})"
            )
        shape = correlation = 0
        if event.args is not None:
            shape = self.shapes[bytes(event.args.shapes)]
            correlation = _int64(event.args.correlation, event)
        category = FORMER.get(event.cat, event.cat)
        if category == "cpu_op" and event.name.startswith(STEP):
            category = "user_annotation"
        names = self.names[event.name], self.categories[category], self._thread(event)
        return start, event.dur, *names, shape, correlation

    def _memory(self, event: Event) -> tuple:
        found = event.args
        kind = DEVICES.get(found.device_kind, f"device type {found.device_kind}")
        device = self.devices[kind if found.device < 0 else f"{kind}:{found.device}"]
        sizes = (_int64(size, event) for size in (found.change, found.allocated))
        return _at(event), *sizes, device

    def trace(self) -> Trace:
        frame, events = self.file.frame, np.concatenate([np.zeros(0, EVENT), *self.events])
        self.events.clear()
        events = events[np.lexsort((-events["duration"], events["start"]))]
        # Seconds since 1970 leave no digits for nanoseconds, so such a clock starts here.
        zero = 0.0
        if len(events) and not frame.epoch:
            zero = 1e6 * np.floor(events["start"][0] / 1e6)
        events["start"] -= zero
        threads = tuple(self.threads)
        columns = {
            name: np.ascontiguousarray(events[name])
            for name in ("name", "category", "thread", "shape", "correlation")
        }
        bare = Trace(
            rank=frame.distributed.rank if frame.distributed else None,
            world_size=frame.distributed.world_size if frame.distributed else None,
            start=events["start"] * MICROSECOND,
            duration=events["duration"] * MICROSECOND,
            names=tuple(self.names),
            categories=tuple(self.categories),
            threads=threads,
            steps=(),
            thread_names=tuple(self.thread_names.get(i, "") for i in range(len(threads))),
            shapes=tuple(_on_one_line(shape) for shape in self.shapes),
            links=self._links(zero),
            allocations=self._allocations(zero),
            epoch=frame.epoch + 1000 * int(zero),
            skipped=self.file.skipped,
            first_skipped=self.file.first_skipped,
            **columns,
        )
        return Trace(**vars(bare) | {"steps": steps(bare)})

    def _links(self, zero: float) -> Links:
        """The two ends of each link, matched by their id; an end alone is left out."""
        sides = [np.concatenate([np.zeros(0, LINK_END), *self.ends[side]]) for side in "sf"]
        if not (len(sides[0]) and len(sides[1])):
            return NO_LINKS
        _, *rows = np.intersect1d(sides[0]["id"], sides[1]["id"], return_indices=True)
        forward, backward = (side[row] for side, row in zip(sides, rows, strict=True))
        return Links(*((side["at"] - zero) * MICROSECOND for side in (forward, backward)))

    def _allocations(self, zero: float) -> Allocations:
        memory = np.concatenate([np.zeros(0, MEMORY_RECORD), *self.memory])
        if not len(memory):
            return NO_ALLOCATIONS
        memory = memory[np.argsort(memory["at"], kind="stable")]
        return Allocations(
            (memory["at"] - zero) * MICROSECOND,
            memory["change"],
            memory["allocated"],
            memory["device"],
            tuple(self.devices),
        )


EVENT = np.dtype(
    {
        "names": ["start", "duration", "name", "category", "thread", "shape", "correlation"],
        "formats": ["f8", "f8", "i4", "i4", "i4", "i4", "i8"],
    }
)
MEMORY_RECORD = np.dtype([("at", "f8"), ("change", "i8"), ("allocated", "i8"), ("device", "i4")])
LINK_END = np.dtype([("id", "i8"), ("at", "f8")])


class _OddError(Exception):
    """Why an event is skipped."""


@dataclass
class _Found:
    """The rows of one block."""

    events: list[tuple] = field(default_factory=list)
    memory: list[tuple] = field(default_factory=list)
    ends: dict[str, list[tuple]] = field(default_factory=lambda: {"s": [], "f": []})


def _at(event: Event) -> float:
    if event.ts is None or not abs(event.ts) < MAX_MICROSECONDS:
        raise _OddError(f"an event without a time of these 100 years ({_brief(event)})")
    return event.ts


def _int64(number: int, event: Event) -> int:
    if not -(2**63) <= number < 2**63:
        raise _OddError(f"an event with a number that is too large ({_brief(event)})")
    return number


def _brief(event: Event) -> str:
    return repr(event.name[:40])


def _on_one_line(shapes: bytes) -> str:
    return b"".join(shapes.split()).replace(b",", b", ").decode(errors="replace")


def _number(identity: int | str) -> int:
    """A link's id; Kineto writes a number."""
    return identity if isinstance(identity, int) and -(2**63) <= identity < 2**63 else -1


def steps(trace: Trace) -> tuple[Step, ...]:
    """The steps that torch.profiler marked in `trace`, in the order of time."""
    found = []
    # A GPU's stream carries the same marks again, as "gpu_user_annotation".
    for i in np.flatnonzero(trace.named(STEP) & trace.of("user_annotation")):
        number = trace.names[trace.name[i]].removeprefix(STEP)
        if number.isdecimal() and len(number) < 10:
            start = float(trace.start[i])
            found.append(Step(int(number), start, start + float(trace.duration[i])))
    return tuple(found)
