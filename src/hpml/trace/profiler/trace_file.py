"""A trace file as blocks of events: JSON, packed with gzip or not, read piece by piece.

torch.profiler and TensorFlow write Chrome's trace format, one object with a list `traceEvents`
(https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU). A file of 100 MB
as Python objects takes a gigabyte, so only some megabytes of it are decoded at a time, and of an
event only the fields that `hpml.trace.profiler` uses.
"""

import gzip
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NoReturn, TypeVar

import msgspec
import numpy as np

from hpml.errors import UserError

PIECE = 4 * 2**20  # bytes decoded at a time; an event is smaller, and so is all beside the events
MAX_BYTES = 2**30  # of the file when unpacked
MAX_EVENTS = 5_000_000  # a step of a large model on a GPU has some ten thousand

_LIST = re.compile(rb'"traceEvents"\s*:\s*\[')
_SEPARATORS = b" \t\r\n,"
_DEEPER = np.zeros(256, np.int8)
_DEEPER[[ord("{"), ord("[")]] = 1
_DEEPER[[ord("}"), ord("]")]] = -1
_STRUCTURE = _DEEPER != 0
_STRUCTURE[ord('"')] = True

Kind = TypeVar("Kind")


class Arguments(msgspec.Struct, gc=False):
    """What is used of an event's `args`."""

    shapes: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="Input Dims")
    change: int = msgspec.field(default=0, name="Bytes")
    allocated: int = msgspec.field(default=0, name="Total Allocated")
    device_kind: int = msgspec.field(default=0, name="Device Type")
    device: int = msgspec.field(default=-1, name="Device Id")
    correlation: int = 0
    name: str = ""


class Event(msgspec.Struct, gc=False):
    """One entry of `traceEvents`. Times are in microseconds."""

    ph: str = ""  # TensorFlow ends its list with {}
    name: str = ""
    cat: str = ""
    pid: int | str = ""
    tid: int | str = ""
    id: int | str = ""
    ts: float | None = None
    dur: float | None = None
    args: Arguments | None = None


class Distributed(msgspec.Struct):
    rank: int | None = None
    world_size: int | None = None


class Frame(msgspec.Struct):
    """What stands beside `traceEvents`."""

    distributed: Distributed | None = msgspec.field(default=None, name="distributedInfo")
    epoch: int = msgspec.field(default=0, name="baseTimeNanoseconds")
    traceEvents: list[Event] = []


class TraceFile:
    """A trace's events, block by block; `frame` is known once all blocks were read.

    Raises UserError, in one line, where the file is none, is cut off, or is over the limits.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.frame = Frame()

    def blocks(self) -> Iterator[list[Event]]:
        """The events in the file's order, some ten thousand at a time."""
        try:
            if not self.path.is_file():
                self.refuse("is not a file", "name a trace that export_chrome_trace wrote")
            with self.path.open("rb") as raw:
                packed = raw.read(2) == b"\x1f\x8b"
                raw.seek(0)
                yield from self._blocks(gzip.GzipFile(fileobj=raw) if packed else raw)
        except EOFError:
            self.cut_off()
        except (gzip.BadGzipFile, zlib.error):
            self.refuse("is damaged (gzip)", "copy it again, or record it again")
        except OSError as error:
            self.refuse(f"cannot be read ({error.strerror})", "name a file that you may read")

    def refuse(self, what: str, remedy: str) -> NoReturn:
        """Raise the one line that says what is wrong with this file."""
        raise UserError(f"trace: {self.path} {what}: {remedy}") from None

    def cut_off(self) -> NoReturn:
        self.refuse("is cut off", "the program was killed while it wrote it; record it again")

    def _blocks(self, file: IO[bytes] | gzip.GzipFile) -> Iterator[list[Event]]:
        self.events = self.bytes = 0
        head, rest = self._head(file)
        while True:
            end, closed = _complete(rest)
            if end:
                yield self._decoded(rest[:end])
            rest = rest[end:].lstrip(_SEPARATORS)
            if closed:
                break
            if len(rest) >= PIECE:
                self.refuse(
                    f"has an event of more than {PIECE:,} bytes", "record it again, without stacks"
                )
            more = self._more(file)
            if not more:
                self.cut_off()
            rest = (rest + more).lstrip(_SEPARATORS)
        tail = rest[1:]
        while more := self._more(file):
            tail += more
            if len(tail) > PIECE:
                self.refuse("has much after its events", "name a trace of torch.profiler")
        self.frame = self._decode(head + b"[]" + tail, Frame)

    def _head(self, file: IO[bytes] | gzip.GzipFile) -> tuple[bytes, bytes]:
        """What stands before the list of events, and the first piece of the list."""
        head = self._more(file)
        while not (found := _LIST.search(head)):
            more = self._more(file)
            if not more and head.lstrip()[:1] == b"{" and head.rstrip()[-1:] != b"}":
                self.cut_off()
            if not more or len(head) >= PIECE:
                self._foreign()
            head += more
        if head.lstrip()[:1] != b"{":
            self._foreign()
        return head[: found.end() - 1], head[found.end() :].lstrip(_SEPARATORS)

    def _foreign(self) -> NoReturn:
        self.refuse(
            'is not a trace (no list "traceEvents")',
            "name a file that export_chrome_trace or tensorboard_trace_handler wrote",
        )

    def _more(self, file: IO[bytes] | gzip.GzipFile) -> bytes:
        piece = file.read(PIECE)
        self.bytes += len(piece)
        if self.bytes > MAX_BYTES:
            self.refuse(f"is larger than {MAX_BYTES >> 20} MiB unpacked", "profile fewer steps")
        return piece

    def _decoded(self, events: bytes) -> list[Event]:
        block = self._decode(b"[" + events + b"]", list[Event])
        self.events += len(block)
        if self.events > MAX_EVENTS:
            self.refuse(f"has more than {MAX_EVENTS:,} events", "profile fewer steps")
        return block

    def _decode(self, text: bytes, kind: type[Kind]) -> Kind:
        try:
            return msgspec.json.decode(text, type=kind)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            reason = re.sub(r"\s*[(-] (byte|at) .*|\(byte.*", "", str(error)).strip()
            self.refuse(
                f"has a record that no profiler writes ({reason})",
                "name a trace of torch.profiler or TensorFlow's profiler",
            )


def _complete(text: bytes) -> tuple[int, bool]:
    """Where the last complete event in `text` ends, and whether the list of events ends there.

    `text` begins in the list, between two events.
    """
    if b"\\" in text:
        # Same length, without escapes: a quote that is left begins or ends a string.
        text = text.replace(b"\\\\", b"  ").replace(b'\\"', b"  ")
    characters = np.frombuffer(text, np.uint8)
    places = np.flatnonzero(_STRUCTURE[characters])
    found = characters[places]
    quote = found == ord('"')
    in_string = np.cumsum(quote, dtype=np.int32) % 2 == 1
    deeper = np.where(in_string | quote, 0, _DEEPER[found])
    depth = np.cumsum(deeper, dtype=np.int32)
    closing = np.flatnonzero((depth == -1) & (deeper == -1))
    if len(closing):
        end = int(places[closing[0]])
        return len(text[:end].rstrip(_SEPARATORS)), True
    ends = np.flatnonzero((depth == 0) & (deeper == -1))
    return (int(places[ends[-1]]) + 1 if len(ends) else 0), False
