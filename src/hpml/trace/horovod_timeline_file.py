"""Read the timeline file that Horovod writes.

`HOROVOD_TIMELINE=FILE` has rank 0 write it, in Chrome's trace format
(https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU), one "process" for
each tensor (Horovod 0.28.1, horovod/common/timeline.cc).

A job that was killed leaves a file that ends anywhere. All that is complete before is read.

Horovod writes the name of a tensor as it is, with quotes, backslashes and line breaks in it.
"""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hpml.errors import UserError
from hpml.trace.horovod_timeline import NEGOTIATE, Operation, Phase, Span, Timeline

KINDS = ("B", "E", "X", "i")
_NAMED = re.compile(
    r'(\{"name": "process_name", "ph": "M", "pid": \d+, "args": \{"name": )"(.*?)"(\}\})'
    r'(?=,?\s*(?:\{"|\]|$))',
    re.DOTALL,
)


@dataclass(frozen=True)
class Event:
    """One record of the file: "B" begin, "E" end, "X" a rank is ready, "i" a cycle begins.

    `at` is in seconds since Horovod started.
    """

    kind: str
    name: str  # empty for "E"
    at: float
    tensor: str = ""  # empty for "i"
    dtype: str = ""  # with the "E" of a tensor's turn
    shape: tuple[int, ...] | None = None


def read(path: str | os.PathLike[str]) -> Timeline:
    """The timeline in a file that Horovod wrote. Raises UserError where it is something else."""
    return parse(_content(path), str(path))


def read_first_half(path: str | os.PathLike[str]) -> Timeline:
    """What can be read from the first half of a file, which is what a killed job may leave.

    Raises UserError where it is something else than a timeline.
    """
    content = _content(path)
    return parse(content[: len(content) // 2], str(path))


def _content(path: str | os.PathLike[str]) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UserError(
            f"timeline: {path} cannot be read ({error.strerror}): "
            "name the file that HOROVOD_TIMELINE named, on rank 0's node"
        ) from None


def parse(content: bytes, name: str = "timeline") -> Timeline:
    """The timeline in `content`. Raises UserError where it is something else."""
    reader = _Records(content, name)
    tensors: dict[int, str] = {}
    started, events = None, []
    for record in reader:
        try:
            if record["ph"] == "M":
                arguments = record.get("args", {})
                if "start_time_since_epoch_in_micros" in arguments:
                    started = arguments["start_time_since_epoch_in_micros"] / 1e6
                elif record["name"] == "process_name":
                    tensors[record["pid"]] = arguments["name"]
            else:
                events.append(_event(record, tensors))
        except (KeyError, TypeError, ValueError):
            raise UserError(
                f"timeline: {name} has a record that Horovod does not write, "
                f"{json.dumps(record)[:80]}: name the file that HOROVOD_TIMELINE named"
            ) from None
    return Timeline(_operations(events), started, reader.cut_at)


def _event(record: dict[str, Any], tensors: dict[int, str]) -> Event:
    kind, arguments = record["ph"], record.get("args", {})
    if kind not in KINDS or (kind == "X" and not record["name"].isdecimal()):
        raise ValueError(record)
    shape = arguments.get("shape")
    return Event(
        kind=kind,
        name=record.get("name", ""),
        at=record["ts"] / 1e6,
        tensor="" if kind == "i" else tensors[record["pid"]],
        dtype=arguments.get("dtype", ""),
        shape=None if shape is None else tuple(int(n) for n in shape.strip("[]").split(",") if n),
    )


class _Records:
    """The file's records one by one; after the last, `cut_at` is where the file was cut off."""

    def __init__(self, content: bytes, name: str) -> None:
        self.content, self.name = content, name
        self.cut_at: int | None = None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        # A character that is cut in two can only be in the last, incomplete record.
        text = self.content.decode("utf-8", errors="replace")
        if text.lstrip()[:1] not in ("", "["):
            raise self._foreign()
        text, grown = _with_quoted_names(text)
        decoder = json.JSONDecoder()
        place = done = len(text) - len(text.lstrip()) + 1 if text.strip() else 0
        while True:
            while text[place : place + 1] in (",", "\n", " ", "\r", "\t"):
                place += 1
            if text[place : place + 1] == "]":
                return
            try:
                record, place = decoder.raw_decode(text, place)
            except json.JSONDecodeError:
                if text[place : place + 1] not in ("", "{") or _closes(text, place):
                    raise self._foreign() from None
                added = sum(by for at, by in grown if at <= done)
                self.cut_at = len(text[:done].encode()) - added
                return
            if not isinstance(record, dict):
                raise self._foreign()
            done = place
            yield record

    def _foreign(self) -> UserError:
        return UserError(
            f"timeline: {self.name} is not a timeline of Horovod's, which begins with [ and has "
            "one record after the other: name the file that HOROVOD_TIMELINE named"
        )


def _with_quoted_names(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text with tensors' names as JSON has them; where it has grown, and by how many bytes."""
    done, grown, parts, length = 0, [], [], 0
    for record in _NAMED.finditer(text):
        name = record[2]
        try:
            json.loads(f'"{name}"')
        except json.JSONDecodeError:
            quoted = json.dumps(name, ensure_ascii=False)[1:-1]
            parts += [text[done : record.start(2)], quoted]
            length += record.start(2) - done + len(quoted)
            grown.append((length, len(quoted) - len(name)))
            done = record.end(2)
    return "".join([*parts, text[done:]]), grown


def _closes(text: str, place: int) -> bool:
    """Whether the object that begins at `place` has its closing brace."""
    depth, quoted = 0, False
    while place < len(text):
        character = text[place]
        if quoted:
            if character == "\\":
                place += 1
            quoted = character != '"'
        elif character == '"':
            quoted = True
        elif character in "{}":
            depth += 1 if character == "{" else -1
            if depth == 0:
                return True
        place += 1
    return False


@dataclass
class _Open:
    """An operation while its events are read."""

    tensor: str
    kind: str
    negotiation: Span | None = None
    ready: list[tuple[int, float]] = field(default_factory=list)
    turn: Span | None = None
    activities: list[Span] = field(default_factory=list)
    dtype: str = ""
    shape: tuple[int, ...] | None = None
    message: int | None = None

    def frozen(self) -> Operation:
        lists = {"ready": tuple(self.ready), "activities": tuple(self.activities)}
        return Operation(**vars(self) | lists)


def _operations(events: list[Event]) -> tuple[Operation, ...]:
    """Put events together. An end without a begin is left out: it began before the file does."""
    made: list[_Open] = []
    latest: dict[str, _Open] = {}
    messages, gathering = 0, False
    for event in events:
        one = latest.get(event.tensor)
        if event.kind == "X" and one is not None:
            one.ready.append((int(event.name), event.at))
        elif event.kind == "B":
            span = Span(event.name, event.at)
            if span.phase == "negotiate":
                one = _Open(event.tensor, event.name.removeprefix(NEGOTIATE), negotiation=span)
            elif one is None or (one.turn is not None and one.turn.end is not None):
                one = _Open(event.tensor, event.name, turn=span)  # negotiated before the file began
            elif one.turn is None:
                one.turn = span
                continue
            else:
                one.activities.append(span)
                if span.phase == "transfer":
                    # All tensors of a message begin to be transferred before any of them ends.
                    if one.message is None:
                        messages += not gathering
                        one.message = messages - 1
                    gathering = True
                continue
            made.append(one)
            latest[event.tensor] = one
        elif event.kind == "E" and one is not None:
            gathering = _end(one, event) != "transfer" and gathering
    return tuple(one.frozen() for one in made)


def _end(one: _Open, event: Event) -> Phase | None:
    """End the innermost open span of the operation; returns its phase."""
    if one.activities and one.activities[-1].end is None:
        one.activities[-1] = replace(one.activities[-1], end=event.at)
        return one.activities[-1].phase
    if one.turn is not None and one.turn.end is None:
        one.turn = replace(one.turn, end=event.at)
        one.dtype, one.shape = event.dtype, event.shape
    elif one.negotiation is not None and one.negotiation.end is None:
        one.negotiation = replace(one.negotiation, end=event.at)
    return None
