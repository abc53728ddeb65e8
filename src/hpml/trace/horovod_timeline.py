"""Horovod's timeline: each tensor's phases, and with which others it was fused.

A tensor is first negotiated: `NEGOTIATE_ALLREDUCE` begins when the first rank has asked for it, has
an instant for each rank that asks, and ends when all have. Then it has its turn: `ALLREDUCE`, with
the activities inside it, `MEMCPY_IN_FUSION_BUFFER`, `GLOO_ALLREDUCE` and so on (Horovod 0.28.1,
horovod/common/timeline.cc; https://horovod.readthedocs.io/en/stable/timeline.html). Tensors that
were fused are in the same activities at the same time, and go as one message.

`hpml.trace.horovod_timeline_file` reads a timeline.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

Phase = Literal["negotiate", "wait", "prepare", "copy", "transfer", "other"]

NEGOTIATE = "NEGOTIATE_"
WITHOUT_TENSOR = ("BARRIER", "JOIN")  # negotiated like tensors, and nothing follows
# What an activity is, by how its name begins (horovod/common/common.h).
PHASES: tuple[tuple[str, Phase], ...] = (
    (NEGOTIATE, "negotiate"),
    ("WAIT_FOR_", "wait"),
    ("INIT_", "prepare"),
    ("ALLOCATE_", "prepare"),
    ("MEMCPY_", "copy"),
    ("COPY_", "copy"),
    ("GLOO_", "transfer"),
    ("MPI_", "transfer"),
    ("NCCL_", "transfer"),
    ("CCL_", "transfer"),
)
ITEM_BYTES = {
    **dict.fromkeys(("uint8", "int8", "bool"), 1),
    **dict.fromkeys(("uint16", "int16", "float16", "bfloat16"), 2),
    **dict.fromkeys(("int32", "float32"), 4),
    **dict.fromkeys(("int64", "float64"), 8),
}


@dataclass(frozen=True)
class Span:
    """Something that took from `begin` to `end`, in seconds; `end` is None where the file ends
    before."""

    name: str
    begin: float
    end: float | None = None

    @property
    def seconds(self) -> float:
        """How long it took; 0.0 where that is not known."""
        return 0.0 if self.end is None else self.end - self.begin

    @property
    def phase(self) -> Phase:
        return next((phase for start, phase in PHASES if self.name.startswith(start)), "other")


@dataclass(frozen=True)
class Operation:
    """One tensor through one collective: negotiated, then `turn` with its `activities`.

    `ready` has each rank that asked for it, and when; an answer from Horovod's cache is not in the
    file. `message` numbers the collectives that really took place from 0 on; tensors with the same
    number were fused. It is None for what was not transferred, such as a barrier.
    """

    tensor: str
    kind: str  # "ALLREDUCE", "BROADCAST", ...
    negotiation: Span | None = None
    ready: tuple[tuple[int, float], ...] = ()
    turn: Span | None = None
    activities: tuple[Span, ...] = ()
    dtype: str = ""  # known once it is done
    shape: tuple[int, ...] | None = None
    message: int | None = None

    @property
    def begin(self) -> float:
        return (self.negotiation or self.turn).begin

    @property
    def nbytes(self) -> int | None:
        """None where it is not known: the file is cut off before, or the dtype is unknown."""
        if self.shape is None or self.dtype not in ITEM_BYTES:
            return None
        return math.prod(self.shape) * ITEM_BYTES[self.dtype]

    @property
    def spans(self) -> tuple[Span, ...]:
        """Negotiation and activities, in the order of time."""
        return (*([self.negotiation] if self.negotiation else []), *self.activities)

    def seconds(self, phase: Phase) -> float:
        return sum(span.seconds for span in self.spans if span.phase == phase)


@dataclass(frozen=True)
class Timeline:
    """The content of a timeline file.

    `cut_at` is None for a whole file, else the bytes of it that are complete.
    """

    operations: tuple[Operation, ...]  # in the order in which they began
    started: float | None = None  # seconds since 1970
    cut_at: int | None = None

    @property
    def cut(self) -> bool:
        return self.cut_at is not None

    def describe(self) -> str:
        """In one line: how much there is, where the file is cut off, and what had begun by then.

        If the process was killed, the last event is missing even where the file looks complete.
        """
        on_tensors = [o for o in self.operations if o.kind not in WITHOUT_TENSOR]
        tensors = len({operation.tensor for operation in on_tensors})
        messages = len(collectives(self))
        text = f"{_count(len(on_tensors), 'operation')} on {_count(tensors, 'tensor')}, "
        text += _count(messages, "collective")
        spans = [s for o in self.operations for s in (*o.spans, o.turn) if s is not None]
        begun = sum(span.end is None for span in spans)
        text += f"; the file is cut off after {self.cut_at} bytes" if self.cut else ""
        return text + (f"; {_count(begun, 'span')} begun and not ended" if begun else "")

    def round(self, number: int) -> "Timeline":
        """Each tensor's `number`-th operation only; -1 for the last one of each."""
        by_tensor: dict[str, list[Operation]] = {}
        for operation in self.operations:
            by_tensor.setdefault(operation.tensor, []).append(operation)
        chosen = {
            id(of_one[number])
            for of_one in by_tensor.values()
            if -len(of_one) <= number < len(of_one)
        }
        return replace(self, operations=tuple(o for o in self.operations if id(o) in chosen))


@dataclass(frozen=True)
class Collective:
    """One message: the operations that were fused into it, and its transfer.

    `transfer` lasts from the first tensor's begin to the last one's end.
    """

    operations: tuple[Operation, ...]
    transfer: Span

    @property
    def fused(self) -> bool:
        return len(self.operations) > 1

    @property
    def nbytes(self) -> int | None:
        sizes = [operation.nbytes for operation in self.operations]
        return None if None in sizes else sum(sizes)


def collectives(timeline: Timeline) -> tuple[Collective, ...]:
    """The messages of a timeline, in order."""
    members: dict[int, list[Operation]] = {}
    for operation in timeline.operations:
        if operation.message is not None:
            members.setdefault(operation.message, []).append(operation)
    return tuple(
        Collective(tuple(fused), _transfer_of(fused)) for _, fused in sorted(members.items())
    )


def held_up(timeline: Timeline, negotiation: Span) -> float:
    """Seconds of a negotiation during which the background thread was sending other tensors.

    The thread negotiates, then sends everything that was agreed on, and only then negotiates again
    (Horovod 0.28.1, horovod/common/operations.cc, RunLoopOnce). A tensor that came too late for one
    round waits until the messages of that round are sent. A span without an end counts as empty.
    """
    if negotiation.end is None:
        return 0.0
    total, done = 0.0, negotiation.begin
    turns = [o.turn for o in timeline.operations if o.turn is not None and o.turn.end is not None]
    for turn in sorted(turns, key=lambda turn: turn.begin):
        begin, end = max(turn.begin, done), min(turn.end, negotiation.end)
        total += max(0.0, end - begin)
        done = max(done, end)
    return total


def _transfer_of(fused: list[Operation]) -> Span:
    spans = [s for operation in fused for s in operation.spans if s.phase == "transfer"]
    ends = [span.end for span in spans]
    return Span(
        spans[0].name,
        min(span.begin for span in spans),
        None if None in ends else max(ends),
    )


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
