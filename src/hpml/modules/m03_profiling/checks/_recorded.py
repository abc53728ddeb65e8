"""A trace that an answer's profiler wrote, read with suspicion: its bytes are a rank's own word."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

STEP = "ProfilerStep#"
MEMORY = "[memory]"


class NoTrace(ValueError):
    """These bytes are not a trace of torch.profiler's, and why."""


class _Event(msgspec.Struct):
    name: str = ""
    ph: str = ""
    cat: str | None = None
    ts: float = 0.0
    dur: float = 0.0
    args: msgspec.Raw = msgspec.Raw(b"{}")


class _File(msgspec.Struct):
    traceEvents: list[_Event]


@dataclass(frozen=True)
class Span:
    """A record with a name: from `start` to `end`, microseconds on the trace's clock."""

    name: str
    start: float
    end: float

    def has(self, moment: float) -> bool:
        return self.start <= moment <= self.end


@dataclass(frozen=True)
class Recorded:
    """What a trace has: its steps by number, the program's own records, and sizes with moments.

    `shaped` has (microseconds, elements) for each operator's first one-dimensional input, and
    `allocated` (microseconds, bytes) for each block of memory. `operators` are all there are.
    """

    steps: Mapping[int, Span]
    marks: Sequence[Span]
    operators: int
    shaped: Sequence[tuple[float, int]]
    allocated: Sequence[tuple[float, int]]


def recorded(data: bytes, most: int) -> Recorded:
    """Read a trace of at most `most` bytes. Raises NoTrace."""
    if len(data) > most:
        raise NoTrace(f"it has more than {most // 2**20} MiB")
    try:
        events = msgspec.json.decode(data, type=_File).traceEvents
        return _recorded(events)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise NoTrace(f"it cannot be read: {str(error)[:80]}") from None


def _recorded(events: Sequence[_Event]) -> Recorded:
    steps: dict[int, Span] = {}
    marks, shaped, allocated, operators = [], [], [], 0
    for event in events:
        if not math.isfinite(event.ts + event.dur):
            raise ValueError("a time is not finite")
        span = Span(event.name, event.ts, event.ts + event.dur)
        number = event.name.removeprefix(STEP)
        if event.name != number and number.isdecimal() and len(number) < 9:
            steps[int(number)] = span
        elif event.ph == "X" and event.cat == "user_annotation":
            marks.append(span)
        elif event.ph == "X" and event.cat == "cpu_op":
            operators += 1
            if (size := _first_size(_args(event).get("Input Dims"))) is not None:
                shaped.append((event.ts, size))
        elif event.name == MEMORY:
            size = _args(event).get("Bytes")
            if type(size) is int and size > 0:
                allocated.append((event.ts, size))
    return Recorded(steps, marks, operators, shaped, allocated)


def _args(event: _Event) -> dict[str, Any]:
    return msgspec.json.decode(event.args, type=dict[str, Any])


def _first_size(dims: Any) -> int | None:
    """n of [[n], ...]: the elements of the first input, where it has one dimension."""
    if type(dims) is list and dims and type(dims[0]) is list and len(dims[0]) == 1:
        return dims[0][0] if type(dims[0][0]) is int else None
    return None
