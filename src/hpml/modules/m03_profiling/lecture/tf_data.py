"""What TensorFlow's profiler recorded of an input pipeline: which stage of tf.data costs what.

`tf.profiler.experimental.start(FOLDER)` and `stop()` leave FOLDER/plugins/profile/TIME/HOST
.xplane.pb, a protocol buffer (XSpace in tsl/profiler/protobuf/xplane.proto) of one list of events
for each thread. A call of a stage's GetNext is an event "Iterator::Root::BatchV2::Map"; calls of
the stages that it takes its elements from lie within it.
"""

import importlib.util
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from hpml.errors import UserError

NEXT = "IteratorGetNextOp::DoCompute"  # the program asks for a batch
NAMES = {"TensorSlice": "slices", "BatchV2": "batch", "ParallelBatch": "batch"}
PICOSECONDS = 1e-12
# "ForeverRepeat[2]::": the third time through; a cache is another class once it is full.
_REPETITION = re.compile(r"\[\d+\]|(?<=MemoryCache)Impl")
SCHEMA = "hpml.trace.profiler.xplane_pb2"


@dataclass(frozen=True)
class Stage:
    """One stage of the pipeline. `name` is the one given by `name=`, else what it does.

    `seconds` is the time in its calls without the time in those of the stage before it. Where
    another thread works for it (parallel map, prefetch), it is the time that its callers wait.
    """

    name: str
    path: str  # "Iterator::Root::BatchV2::Map"
    calls: int
    seconds: float


@dataclass(frozen=True)
class InputPipeline:
    """What the steps of a profile waited for input, and the stages, the first one that reads first.

    A step is what the program marks with `tf.profiler.experimental.Trace`.
    """

    steps: int
    seconds: float  # in steps
    waiting: float  # of them, until the next batch was there
    stages: tuple[Stage, ...]

    @property
    def share(self) -> float:
        """Of a step's time, how much is waiting for input, in [0, 1]."""
        return self.waiting / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class _Event:
    start: int  # picoseconds
    end: int
    name: str
    given: str  # the stage's `name=`, where it has one


def read(folder: Path, step: str = "train") -> InputPipeline:
    """The newest profile below `folder`, with steps of the name `step`.

    Raises UserError where there is none, it cannot be read, or it has no such step or no tf.data.
    """
    files = sorted(folder.glob("plugins/profile/*/*.xplane.pb"), key=lambda file: file.parent.name)
    if not files:
        raise UserError(f"{folder} has no plugins/profile/*/*.xplane.pb: was the profiler stopped?")
    steps = seconds = waiting = 0
    calls: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for thread in _threads(files[-1]):
        marked = [event for event in thread if event.name == step]
        steps += len(marked)
        seconds += sum(event.end - event.start for event in marked)
        for event in thread:
            inside = any(one.start <= event.start and event.end <= one.end for one in marked)
            if event.name == NEXT and inside:
                waiting += event.end - event.start
        for event, own in _self_times([e for e in thread if e.name.startswith("Iterator::Root::")]):
            key = _REPETITION.sub("", event.name), event.given
            calls[key][0] += 1
            calls[key][1] += own
    if not steps or not calls:
        lacks = f"step {step!r}" if not steps else "stage of tf.data"
        raise UserError(f"{files[-1].name} has no {lacks}: what was profiled?")
    stages = tuple(
        Stage(name, path, count, own * PICOSECONDS)
        for (path, name), (count, own) in sorted(calls.items(), key=lambda item: -len(item[0][0]))
    )
    return InputPipeline(steps, seconds * PICOSECONDS, waiting * PICOSECONDS, stages)


def _threads(file: Path) -> Iterator[list[_Event]]:
    """The events of each thread by their start; of nested ones the outer one first."""
    from google.protobuf.message import DecodeError

    try:
        space = _schema().XSpace.FromString(file.read_bytes())
    except (DecodeError, OSError) as error:
        raise UserError(f"{file.name} cannot be read ({error}): was it cut off?") from None
    for plane in space.planes:
        for line in plane.lines:
            first = line.timestamp_ns * 1000
            events = [_event(plane, event, first) for event in line.events]
            yield sorted(events, key=lambda event: (event.start, -event.end))


def _event(plane: Any, event: Any, first: int) -> _Event:
    name = plane.event_metadata[event.metadata_id].name
    start = first + event.offset_ps
    given = _stage_name(plane, event, name) if name.startswith("Iterator::") else ""
    return _Event(start, start + event.duration_ps, name, given)


def _stage_name(plane: Any, event: Any, path: str) -> str:
    """A stage that has no name of its own is recorded as "BatchDatasetV2:1"."""
    what = path.rpartition("::")[2]
    for stat in event.stats:
        if plane.stat_metadata[stat.metadata_id].name == "name":
            given = stat.str_value or plane.stat_metadata[stat.ref_value].name
            if given and ":" not in given:
                return given
    return NAMES.get(what, what.lower())


def _self_times(events: list[_Event]) -> Iterator[tuple[_Event, int]]:
    """Each event of one thread with its time without that of the events within it."""
    within: dict[int, int] = defaultdict(int)
    open_: list[int] = []
    for number, event in enumerate(events):
        while open_ and events[open_[-1]].end <= event.start:
            open_.pop()
        if open_:
            within[open_[-1]] += event.end - event.start
        open_.append(number)
    for number, event in enumerate(events):
        yield event, event.end - event.start - within[number]


def _schema() -> ModuleType:
    """The classes of xplane.proto that TensorFlow brings, without importing TensorFlow (seconds).

    Raises UserError where it is not installed.
    """
    if SCHEMA in sys.modules:
        return sys.modules[SCHEMA]
    found = importlib.util.find_spec("tensorflow")
    if found is None or not found.origin:
        raise UserError("tensorflow is not installed: ./hpml doctor says how to get it")
    file = Path(found.origin).parent / "tsl" / "profiler" / "protobuf" / "xplane_pb2.py"
    spec = importlib.util.spec_from_file_location(SCHEMA, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[SCHEMA] = module
    return module
