"""A line for each check in a folder that a class shares, where HPML_CLASS names one.

An instructor sees from it where the room is stuck. A line has no code, nothing that an answer
printed, and no name but the one that HPML_NAME gives. It is what a learner's own machine reported:
it proves nothing, and no mark is made of it.

No line is lost, and none is mixed with another, though no lock is relied on. On NFS two machines
that append to one file overwrite each other, since each writes where it believes the end to be:
open(2), O_APPEND. So a file has the lines of one learner on one running kernel. Processes there, as
two notebooks, append in turn: the kernel holds the file while it looks for its end and writes a
line, on NFS too. A line is one write(), and begins with a newline, so that one before it that was
cut short, on a full disk, takes no other with it.
"""

import errno
import hashlib
import os
import re
import secrets
import stat
import sys
from datetime import datetime, timezone
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from hpml.files import atomic
from hpml.files.sanitize import one_line
from hpml.paths import home

if TYPE_CHECKING:  # it would import torch
    from hpml.checks.verdict import Verdict

FOLDER, NAME = "HPML_CLASS", "HPML_NAME"  # variables of the environment
ENDING = ".checks.jsonl"
LONGEST_NAME = 24  # characters
LIMIT = 2.0  # seconds that a check waits for the folder: a server of NFS may not answer at all

Text = Annotated[str, Meta(max_length=200)]
Word = Annotated[str, Meta(max_length=40)]
Count = Annotated[int, Meta(ge=0, le=1000)]


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One check. Decoded from JSON, a value of another type or range is a ValidationError."""

    at: Annotated[datetime, Meta(tz=True)]  # UTC
    exercise: Word
    status: Word  # these two as in `hpml.checks.verdict`
    cause: Word
    holds: Count  # claims that hold
    claims: Count  # all of them
    earned: Count
    points: Count
    claim: Text = ""  # the first that does not hold; "" where none was judged, or all hold
    hint: Word = ""  # the key of its hint, or of the hint on why none was judged
    hints: Count = 0  # of the exercise, that the learner has read
    name: Word = ""


def is_wanted() -> bool:
    """Whether checks are to be recorded."""
    return bool(os.environ.get(FOLDER))


def append(verdict: "Verdict", hints: int) -> None:
    """Record a check in the folder of HPML_CLASS; `hints` of its exercise have been read.

    What is done is reported on stderr, or else why nothing could be written, in one line; and not
    again before it changes. Raises nothing that the folder is to blame for, and waits LIMIT seconds
    at most.
    """
    folder = Path(os.path.expanduser(os.environ[FOLDER]))
    name = one_line(os.environ.get(NAME, ""), LONGEST_NAME)
    path = folder / f"{_own_id()}-{_kernel()}{ENDING}"
    data = b"\n" + msgspec.json.encode(line_of(verdict, hints, name)) + b"\n"
    if fault := _write(folder, path, data):
        _report_once(
            f"{FOLDER}={folder}: {fault}: your checks are not on the class's board, and all else "
            f"goes on. Name a folder that the class can write to, or unset {FOLDER}"
        )
        return
    named = f"the name {name}" if name else f"no name ({NAME} would give one)"
    _report_once(
        f"{FOLDER} is set: each check adds a line to {path}, for your instructor to see where the "
        "class is: exercise, points, claims that hold, the first that does not, hints read, time; "
        f"no code, {named}. It is never a mark. To stop: unset {FOLDER}, "
        f"or in a notebook %env {FOLDER}="
    )


def line_of(verdict: "Verdict", hints: int, name: str = "") -> Line:
    """What is recorded of a verdict, now."""
    failed = next((claim for claim in verdict.claims if claim.state == "fails"), None)
    keys = [claim.hint_key for claim in verdict.claims if claim.hint_key]
    return Line(
        at=datetime.now(timezone.utc).replace(microsecond=0),
        exercise=verdict.exercise[:40],
        status=verdict.status,
        cause=verdict.cause,
        holds=sum(claim.passed for claim in verdict.claims),
        claims=len(verdict.claims),
        earned=verdict.earned,
        points=verdict.points,
        claim=one_line(failed.name) if failed and verdict.cause == "claims" else "",
        hint=keys[0][:40] if keys else "",
        hints=min(hints, 1000),
        name=name,
    )


def _write(folder: Path, path: Path, data: bytes) -> str:
    """Append `data`; returns why it could not be, or ""."""
    if not folder.is_absolute():
        return "the whole path is needed, as notebooks run in another folder"
    fault: list[OSError] = [TimeoutError(errno.ETIMEDOUT, f"no answer in {LIMIT:.0f} s")]

    def write() -> None:
        try:
            _append(path, data)
            fault.clear()
        except OSError as error:
            fault[0] = error

    # Nothing else ends a wait for a server that is gone. The thread may still write, late.
    thread = Thread(target=write, daemon=True)
    thread.start()
    thread.join(LIMIT)
    return (fault[0].strerror or str(fault[0])) if fault else ""


def _append(path: Path, data: bytes) -> None:
    """One write to the end of a file, which everybody may read. Raises OSError.

    All of the class may write to the folder, so a link or a pipe of that name is not written to.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    number = os.open(path, flags, 0o644)
    try:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, f"{path.name} is not a file")
        if not status.st_mode & stat.S_IROTH:
            os.fchmod(number, 0o644)  # a umask of 077 would hide it from the instructor
        if os.write(number, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(number)  # NFS reports here what it could not write


def _report_once(sentence: str) -> None:
    """Print a sentence on stderr, unless it is what was printed last."""
    sentence = one_line(sentence, 2000)
    last = _own_folder() / "reported"
    try:
        if last.read_text("utf-8", "replace") == sentence:
            return
    except FileNotFoundError:
        pass
    atomic.write_text(last, sentence)
    print(sentence, file=sys.stderr)


def _own_id() -> str:
    """Random, and this learner's alone. The race's board has another: it shows user names."""
    path = _own_folder() / "learner"
    atomic.create(path, secrets.token_hex(4).encode())
    kept = path.read_text("utf-8", "replace").strip()
    return kept if re.fullmatch(r"[0-9a-f]{8}", kept) else "00000000"


def _own_folder() -> Path:
    path = home() / "class"
    path.mkdir(exist_ok=True)
    return path


def _kernel() -> str:
    """Of the kernel that runs here, until it is booted again: what has one view of a file on NFS.

    A host's name would not do: containers on two machines may have the same.
    """
    try:
        booted = Path("/proc/sys/kernel/random/boot_id").read_bytes()
    except OSError:  # not Linux
        booted = os.uname().nodename.encode()
    return hashlib.sha256(booted).hexdigest()[:8]
