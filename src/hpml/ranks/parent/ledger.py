"""A rank's ledger as the parent reads it: checked, and gathered into its part of the evidence."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from signal import Signals
from typing import Any

from hpml.ranks import encoding
from hpml.ranks.evidence import (
    MEETING,
    Asked,
    Call,
    Counts,
    End,
    Mark,
    Meeting,
    Raised,
    RankEvidence,
)

MAX_CALLS = 200_000
MAX_MARKS = 10_000
MAX_GROUPS = 1000
MAX_ASKED = 20_000
MAX_REQUEST = 2**20  # bytes of one request
MAX_REQUESTS = 2**25  # bytes of all requests of one rank: they are kept
MAX_SAMPLES = 100  # kept, the last ones
MAX_OUTPUT = 2**20  # bytes of stdout and stderr kept of each rank
MAX_PRINTED = 2**24  # bytes after which a rank that prints is ended
MAX_TEXT = 20_000  # characters of one text from a rank
MAX_ADDRESS = 200  # of one where ranks meet


@dataclass(frozen=True)
class NewGroup:
    """A group that a rank makes, or has made, by `new_group`."""

    members: tuple[int, ...]
    line: int | None


@dataclass
class RankLog:
    """What is known of one rank so far. Times are seconds since the launch began."""

    rank: int
    started: float  # time.monotonic() at the launch's start
    calls: list[Call] = field(default_factory=list)
    earlier: int = 0  # of these, from runs before this one; their indices are 0 and below
    before: int = 0  # calls that the rank had counted when this run began
    earlier_seconds: float = 0.0  # from the first run's start to this one's
    marks: list[Mark] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    asking: bool = False  # the last of `asked` has no reply yet
    requested: int = 0  # bytes of all requests
    groups: list[NewGroup] = field(default_factory=list)
    grouping: bool = False  # it is in new_group, for the last of `groups`
    waiting: int | None = None  # place in `calls` of the one that the rank waits for
    begun: bool = False  # it is forked and has its job
    set_up: bool = False  # one that stays has its group, and can run its drive again
    end: End | None = None  # as RankEvidence.end, None while at work
    value: Any = None
    raised: Raised | None = None
    refused: str | None = None
    exit_code: int | None = None
    signal: str | None = None
    out_of_memory: bool = False  # it was killed at the limit of its memory
    line: int | None = None  # where it was last seen outside a collective
    ended_at: float | None = None
    samples: list[tuple[int | None, int]] = field(default_factory=list)
    output: bytearray = field(default_factory=bytearray)
    output_cut: bool = False
    printed: int = 0  # bytes, kept or not

    def take(self, event: list[Any], now: float) -> None:
        """Take in one event of the rank. Raises ValueError where it is not well formed."""
        try:
            self._take(event, now)
        except (IndexError, TypeError, KeyError, OverflowError) as error:
            raise ValueError(f"malformed event {str(event)[:80]}: {error}") from None

    def _take(self, event: list[Any], now: float) -> None:
        kind, *rest = event
        if self.end is not None:
            return  # what comes after the end is not evidence
        if kind == "call":
            self._call(now, *rest)
        elif kind in ("wait", "done") and self._is_forgotten(rest[0]):
            return
        elif kind == "wait":
            index, at = rest
            place = self._place(index)
            call = self.calls[place]
            if call.waited is None and call.finished is None:
                self.calls[place] = replace(call, waited=self._time(at, now))
                self.waiting = place
        elif kind == "done":
            index, at = rest
            place = self._place(index)
            if self.calls[place].finished is None:
                self.calls[place] = replace(self.calls[place], finished=self._time(at, now))
            if self.waiting == place:
                self.waiting = None
        elif kind == "mark":
            if len(self.marks) == MAX_MARKS:
                raise ValueError(f"more than {MAX_MARKS} marks")
            self.marks.append(Mark(str(rest[0])[:200], self._time(rest[1], now)))
        elif kind == "grouping":
            if len(self.groups) == MAX_GROUPS:
                raise ValueError(f"more than {MAX_GROUPS} groups")
            line, *members = rest
            self.groups.append(NewGroup(tuple(map(int, members)), _number(line)))
            self.grouping = True
        elif kind == "grouped":
            self.grouping = False
        elif kind == "sample":
            self.samples.append((_number(rest[0]), int(rest[1])))
            del self.samples[:-MAX_SAMPLES]
        elif kind == "value":
            self.value = encoding.decode(rest[0])
            self._ended("returned", now)
        elif kind == "refused":
            self.refused = _text(rest[0])
            self._ended("raised", now)
            self.raised = Raised("TypeError", self.refused, None, self.refused)
        elif kind == "raised":
            name, message, line, text = rest
            self.raised = Raised(_text(name), _text(message), _number(line), _text(text))
            self._ended("raised", now)
        elif kind == "exit":
            self.exit_code, self.line = int(rest[0]), _number(rest[1])
            self._ended("exited", now)
        elif kind == "begin":
            self.begun = True
        elif kind == "set up":
            self.set_up = True
        else:
            raise ValueError(f"unknown event {kind[:40]!r}")

    def ask(self, data: bytes, now: float) -> Any:
        """Take in a request; returns it decoded. Raises ValueError where it is one too many."""
        self.requested += len(data)
        if self.asking:
            raise ValueError("two requests at once")
        if len(self.asked) == MAX_ASKED:
            raise ValueError(f"more than {MAX_ASKED} requests")
        if len(data) > MAX_REQUEST or self.requested > MAX_REQUESTS:
            raise ValueError(f"requests of {self.requested} bytes")
        request = encoding.decode(data)
        self.asked.append(Asked(request, now))
        self.asking = True
        return request

    def found(self, files: Mapping[str, int] | None, counts: Counts | None = None) -> None:
        """These files were there, and these the kernel's counts, when the open request had come."""
        self.asked[-1] = replace(self.asked[-1], files=files, counts=counts)

    def answered(self, now: float, refused: bool = False) -> None:
        """The open request has its reply. Raises RuntimeError where none is open."""
        if not self.asking:
            raise RuntimeError(f"rank {self.rank} has no open request to reply to")
        self.asked[-1] = replace(self.asked[-1], answered=now, refused=refused)
        self.asking = False

    @property
    def pending(self) -> Call | None:
        """The call that the rank waits for."""
        return None if self.waiting is None else self.calls[self.waiting]

    @property
    def open(self) -> Call | None:
        """The first call that was begun and is not known to be complete."""
        return next((call for call in self.calls if call.finished is None), None)

    def wait_for_what_is_open(self) -> None:
        """Where nothing moves, treat an open call as the one that the rank waits for: C++
        (DistributedDataParallel's reducer) waits without a call of `wait` to record."""
        if self.waiting is None and self.open is not None:
            self.waiting = self.calls.index(self.open)

    def next(self, started: float) -> "RankLog":
        """The log of the rank's next run, from `started` on, with the calls so far: some that come
        may belong to them. They are not of that run, and nor are their lines."""
        last = self.calls[-1].index if self.calls else 0
        passed = started - self.started

        def earlier(at: float | None) -> float | None:
            return None if at is None else at - passed

        calls = [
            replace(
                call,
                index=call.index - last,
                line=None,
                issued=call.issued - passed,
                waited=earlier(call.waited),
                finished=earlier(call.finished),
            )
            for call in self.calls
        ]
        return RankLog(
            self.rank,
            started,
            calls,
            earlier=len(calls),
            before=self.before + last,
            earlier_seconds=self.earlier_seconds + passed,
            groups=[NewGroup(group.members, None) for group in self.groups],
            begun=True,
            set_up=True,
        )

    def forget_earlier(self) -> None:
        """No call of earlier runs belongs to one that comes."""
        del self.calls[: self.earlier]
        self.earlier = 0

    def _is_forgotten(self, index: int) -> bool:
        first = self.calls[0].index if self.calls else 1
        return bool(self.before) and index - self.before < first

    def _place(self, index: int) -> int:
        place = index - self.before - self.calls[0].index
        if not 0 <= place < len(self.calls):
            raise ValueError(f"call {index} was never made")
        return place

    def _call(
        self,
        now: float,
        index: int,
        operation: object,
        group: Iterable[Any],
        sequence: Any,
        dtype: object,
        shape: Iterable[Any],
        nbytes: Any,
        reduction: object,
        line: Any,
        at: float,
        tensor: object = "",
        kept: Any = 0,
        root: Any = None,
        peer: Any = None,
        tag: Any = 0,
        *meets: Any,
    ) -> None:
        index -= self.before
        if (self.calls and index != self.calls[-1].index + 1) or not 0 <= index <= MAX_CALLS:
            raise ValueError(f"call {index} after {len(self.calls)} calls")
        self.calls.append(
            Call(
                index=index,
                operation=_text(operation),
                group=tuple(int(r) for r in group),
                sequence=int(sequence),
                dtype=_text(dtype),
                shape=tuple(int(n) for n in shape),
                nbytes=int(nbytes),
                reduction=_text(reduction),
                line=_number(line),
                issued=self._time(at, now),
                tensor=_text(tensor),
                kept=int(kept),
                root=_number(root),
                peer=_number(peer),
                tag=int(tag),
                meets=_meeting(*meets) if meets else None,
            )
        )

    def _time(self, at: float, now: float) -> float:
        """A rank's time on the launch's clock. ValueError if before the launch or after now."""
        since = float(at) - self.started
        if not -1.0 - self.earlier_seconds <= since <= now + 1.0:
            raise ValueError(f"a moment {since:.1f} s from the start, told after {now:.1f} s")
        return since

    def _ended(self, end: End, now: float) -> None:
        self.end, self.ended_at, self.waiting = end, now, None

    def process_ended(self, status: int, now: float) -> None:
        """The rank's process left by itself: `status` as `os.waitstatus_to_exitcode` has it."""
        if self.end is not None:
            return
        if status < 0:
            named = {int(number): number.name for number in Signals}
            self.signal = named.get(-status, f"signal {-status}")  # real-time ones have no names
            self._ended("killed", now)
        else:
            self.exit_code = status
            self._ended("exited", now)

    def print(self, data: bytes) -> None:
        self.printed += len(data)
        room = MAX_OUTPUT - len(self.output)
        self.output += data[:room]
        self.output_cut = self.output_cut or len(data) > room

    def evidence(self, now: float) -> RankEvidence:
        """The rank's part of the evidence, once the launch has ended."""
        return RankEvidence(
            rank=self.rank,
            end=self.end or "ended",
            value=self.value,
            raised=self.raised,
            exit_code=self.exit_code,
            signal=self.signal,
            stdout=self.output.decode("utf-8", "replace"),
            stdout_cut=self.output_cut,
            # The engine's own call comes first. A rank may have left it out.
            calls=tuple(
                call
                for call in self.calls[self.earlier :]
                if call.index > 0 or call.operation not in MEETING
            ),
            marks=tuple(self.marks),
            asked=tuple(self.asked),
            seconds=self.ended_at if self.ended_at is not None else now,
        )


def _meeting(rank: Any, size: Any, address: Any, machine: Any, port: Any) -> Meeting:
    where = (_text(address)[:MAX_ADDRESS], _text(machine), _text(port))
    return Meeting(_number(rank), int(size), *where)


def _text(value: Any) -> str:
    return str(value)[:MAX_TEXT]


def _number(value: Any) -> int | None:
    return None if value is None else int(value)
