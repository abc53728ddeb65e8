"""A trace file as blocks of events: JSON, packed with gzip or not, read piece by piece.

torch.profiler and TensorFlow write Chrome's trace format, one object with a list `traceEvents`
(https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU). A file of 100 MB
as Python objects takes a gigabyte, so only some megabytes of it are decoded at a time, and of an
event only the fields that `hpml.trace.profiler` uses. An event that is no JSON, or of wrong types,
is put right (`hpml.trace.profiler.damaged`) or skipped, and counted; only what is cut off, or is
not a trace, is refused.
"""

import contextlib
import gzip
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NoReturn

import msgspec

from hpml.errors import UserError
from hpml.trace.profiler import damaged

PIECE = 4 * 2**20  # bytes decoded at a time; an event is smaller, and so is all beside the events
MAX_BYTES = 2**30  # of the file when unpacked
MAX_EVENTS = 5_000_000  # a step of a large model on a GPU has some ten thousand

_LIST = re.compile(rb'"traceEvents"\s*:\s*\[')
_ALONE = re.compile(rb"\s*\[\s*[{\]]")  # the list alone, as PyTorch wrote it without Kineto
_HOROVOD = b"start_time_since_epoch_in_micros"
_MARK = b"\xef\xbb\xbf"  # that some editors put before UTF-8
_SEPARATORS = b" \t\r\n,"
# Of what stands beside the events, where that is no JSON
_RANK, _SIZE, _EPOCH = (
    re.compile(rb'"%s"\s*:\s*(\d+)' % name)
    for name in (b"rank", b"world_size", b"baseTimeNanoseconds")
)


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


class NotATraceError(UserError):
    """The file is another one than a trace, and whole."""


class TraceFile:
    """A trace's events, block by block; `frame` is known once all blocks were read.

    `skipped` counts the events that could not be read, and `first_skipped` says where the first of
    them is in the unpacked file, and why.

    Raises UserError, in one line, where the file is none, is cut off, or is over the limits.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.frame = Frame()
        self.skipped = 0
        self.first_skipped = ""
        self._at: list[int] = []  # where each event of the block lies, once that is known
        self._block = 0, b""  # the block's place, and its text

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

    def skip(self, index: int, why: str) -> None:
        """Count event number `index` of the present block as one that cannot be read."""
        if not self._at:
            place, text = self._block
            self._at = [place + at for at, _ in damaged.by_structure(text)]
        self._skip(self._at[index], why)

    def _skip(self, at: int, why: str) -> None:
        self.first_skipped = self.first_skipped or f"byte {at:,}: {why}"
        self.skipped += 1

    def _blocks(self, file: IO[bytes] | gzip.GzipFile) -> Iterator[list[Event]]:
        self.events = self.bytes = 0
        head, rest = self._head(file)
        alone, ended = not head, False
        while True:
            ends, close = damaged.structure(rest)
            end = len(rest[:close].rstrip(_SEPARATORS)) if close >= 0 else int([0, *ends][-1])
            if (ended or len(rest) >= PIECE) and close < 0 and not end:
                block, end, close = self._by_beginning(rest, ended)
            else:
                block, end, close = self._strictly(rest, end, close, ended)
            if alone and block:
                self._check_alone(block)
                alone = False
            if block:
                yield block
            if close >= 0:
                rest = rest[close:]
                break
            rest = rest[end:].lstrip(_SEPARATORS)
            more = self._more(file)
            ended = not more
            rest = (rest + more).lstrip(_SEPARATORS)
        tail = rest[1:]
        while more := self._more(file):
            tail += more
            if len(tail) > PIECE:
                self.refuse("has much after its events", "name a trace of torch.profiler")
        if head:
            self.frame = self._framed(head + b"[]" + tail)

    def _strictly(
        self, rest: bytes, end: int, close: int, ended: bool
    ) -> tuple[list[Event], int, int]:
        """The events in `rest[:end]`, and how far they and the list go: by what JSON is."""
        place = self.bytes - len(rest)
        self._block, self._at = (place, rest[:end]), []
        if not end:
            return [], end, close
        try:
            block = msgspec.json.decode(b"[" + rest[:end] + b"]", type=list[Event])
        except _REFUSED:
            found = [(place + at, event) for at, event in damaged.by_structure(rest[:end])]
            if not found and close >= 0:
                self._skip(place, "no event")
                return [], end, close
            if not all(_is_object(event) for _, event in found):
                return self._by_beginning(rest, ended)
            block = self._one_by_one(found)
        return self._counted(block), end, close

    def _by_beginning(self, rest: bytes, ended: bool) -> tuple[list[Event], int, int]:
        """As `_strictly`, where quotes or braces are not as they should be.

        The last event is left for the next time, unless the file has `ended`.
        """
        place = self.bytes - len(rest)
        self._block = place, rest
        found = list(damaged.by_beginning(rest))
        close = -1
        if ended:
            begin = found[-1][0] if found else 0
            close = damaged.list_ends(rest, begin)
            if close < 0:
                self.cut_off()
            found[-1:] = [(begin, rest[begin:close].rstrip(_SEPARATORS))]
            end = close
        elif len(found) > 1:
            end = found.pop()[0]
        elif len(rest) < PIECE:
            return [], 0, close
        else:
            self.refuse(
                f"has an event of more than {PIECE:,} bytes", "record it again, without stacks"
            )
        return self._counted(self._one_by_one([(place + a, e) for a, e in found])), end, close

    def _one_by_one(self, found: list[tuple[int, bytes]]) -> list[Event]:
        block = []
        self._at = []
        for at, text in found:
            try:
                block.append(_event(text))
                self._at.append(at)
            except _REFUSED as error:
                self._skip(at, f"an event that is not JSON, or of wrong types ({_reason(error)})")
        return block

    def _head(self, file: IO[bytes] | gzip.GzipFile) -> tuple[bytes, bytes]:
        """What stands before the list of events (nothing: the list is alone), and the first piece
        of the list."""
        head = self._more(file).removeprefix(_MARK)
        if alone := _ALONE.match(head):
            return b"", head[alone.end() - 1 :]
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

    def _check_alone(self, block: list[Event]) -> None:
        """Raise where a list alone is not one of events, or is one of Horovod's."""
        if not any(event.ph for event in block):
            self._foreign()
        if _HOROVOD in self._block[1]:
            self.refuse("is a timeline of Horovod", "read it with hpml.trace.horovod_timeline_file")

    def _foreign(self) -> NoReturn:
        raise NotATraceError(
            f'trace: {self.path} is not a trace (no list "traceEvents"): '
            "name a file that export_chrome_trace or tensorboard_trace_handler wrote"
        )

    def _more(self, file: IO[bytes] | gzip.GzipFile) -> bytes:
        piece = file.read(PIECE)
        self.bytes += len(piece)
        if self.bytes > MAX_BYTES:
            self.refuse(f"is larger than {MAX_BYTES >> 20} MiB unpacked", "profile fewer steps")
        return piece

    def _counted(self, block: list[Event]) -> list[Event]:
        self.events += len(block)
        if self.events > MAX_EVENTS:
            self.refuse(f"has more than {MAX_EVENTS:,} events", "profile fewer steps")
        return block

    def _framed(self, text: bytes) -> Frame:
        """What stands beside the events; where that is no JSON, rank and clock are looked for."""
        for candidate in (text, *damaged.put_right(text)):
            with contextlib.suppress(*_REFUSED):
                return msgspec.json.decode(candidate, type=Frame)
        if text.rstrip()[-1:] != b"}":
            self.cut_off()
        self._skip(0, "what stands beside the events is not JSON, or of wrong types")
        rank, size, epoch = (
            int(found[1]) if (found := pattern.search(text)) else None
            for pattern in (_RANK, _SIZE, _EPOCH)
        )
        return Frame(distributed=Distributed(rank, size), epoch=epoch or 0)


_REFUSED = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


def _event(text: bytes) -> Event:
    """One event, put right where it has to be. Raises one of _REFUSED, of the text as it is."""
    try:
        return msgspec.json.decode(text, type=Event)
    except _REFUSED:
        for candidate in damaged.put_right(text):
            with contextlib.suppress(*_REFUSED):
                return msgspec.json.decode(candidate, type=Event)
        raise


def _is_object(text: bytes) -> bool:
    """Whether it is a JSON object, put right where it has to be."""
    for candidate in (text, *damaged.put_right(text)):
        with contextlib.suppress(*_REFUSED):
            return isinstance(msgspec.json.decode(candidate), dict)
    return False


def _reason(error: Exception) -> str:
    return re.sub(r"\s*[(-] (byte|at) .*|\(byte.*", "", str(error)).strip()
