"""Killing a rank while it writes a file, from outside: by its supervisor, at a moment that the rank
cannot know. See inotify(7); Linux only.
"""

import contextlib
import hashlib
import os
import stat
import sys
import time
from dataclasses import dataclass

from hpml.ranks import inotify

_MODIFY, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _CREATE = 0x2, 0x8, 0x40, 0x80, 0x100
_DELETE, _DELETE_SELF, _MOVE_SELF = 0x200, 0x400, 0x800
_WATCHED = _MODIFY | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE
_WATCHED |= _DELETE | _DELETE_SELF | _MOVE_SELF
_ALL_EVENTS = 2**23  # bytes: more than the kernel keeps
_COMPARED = 2**26  # bytes of a file whose content is compared


@dataclass(frozen=True)
class Kill:
    """End `rank` by SIGKILL when it begins, for the `nth` time in the launch, to write a file in
    `folder`, which is there before the launch and is a path from the ranks' `cwd`.

    With `replaced`, it is the `nth` time since another file was renamed to `file` that often, so
    that files for show cannot bring on a kill before it has replaced the one that counts. Sooner
    when the file named `file` is not whole: see `Writings.broken`.
    """

    rank: int
    folder: str
    nth: int = 1
    file: str = ""
    replaced: int = 0


def possible() -> bool:
    """Whether this system reports who writes where."""
    return sys.platform == "linux"


class Writings:
    """How often a process has `begun` to write a file in `folder`, since one was renamed to `file`
    `replaced` times.

    A file that was moved here from elsewhere counts, one that was renamed here does not. `broken`
    says how there was a moment without a whole file named `file`, which is there at the start: "it
    was removed"; or "". Raises OSError where the folder cannot be watched, CannotWatch where no
    folder can be.
    """

    def __init__(self, folder: str, file: str = "", replaced: int = 0) -> None:
        self.begun, self.broken = 0, ""
        self._file, self._replaced = os.fsencode(file), replaced
        self._path = os.path.join(os.fsencode(folder), self._file)
        self._placed = time.time_ns()  # what is at the path was complete by then
        self._content = self._read()[1] if file else b""  # what it was then
        self._compared = 0  # the ctime by which it still was that
        self._open: set[bytes] = set()  # files being written
        self._renamed: set[int] = set()  # cookies of renamed files
        if not possible():
            raise inotify.CannotWatch("only Linux reports when a file is written")
        self._watched = inotify.Watched([folder], _WATCHED)

    def fileno(self) -> int:
        return self._watched.fileno()

    def look(self) -> int:
        """Take in what has happened; returns `begun`."""
        # Before the events, so that all of them are here that led to this file
        found = self._look_at_the_file() if self._file else None
        for mask, cookie, name in inotify.events(self._watched.read(_ALL_EVENTS)):
            self._take(mask, cookie, name)
        if found is not None:
            self._judge(found)
        return self.begun

    def _take(self, mask: int, cookie: int, name: bytes) -> None:
        is_file = bool(self._file) and name == self._file
        if mask & (_DELETE_SELF | _MOVE_SELF | inotify.OVERFLOW):
            self._breaks("its folder was moved, or too much was written to see it all")
        elif mask & (_DELETE | _MOVED_FROM):
            self._open.discard(name)
            if mask & _MOVED_FROM:
                self._renamed.add(cookie)
            if is_file:
                self._breaks("it was removed")
        elif mask & _MOVED_TO:
            self._begins(cookie not in self._renamed)
            if is_file:
                self._replaced -= 1
                self._placed = time.time_ns()
                self._content = self._read()[1]
        elif mask & _CLOSE_WRITE:
            self._open.discard(name)
        elif mask & (_CREATE | _MODIFY) and name not in self._open:
            self._open.add(name)
            self._begins()
            if is_file:
                self._breaks("it was written in place")

    def _begins(self, times: int = 1) -> None:
        self.begun += times if self._replaced <= 0 else 0

    def _breaks(self, how: str) -> None:
        self.broken = self.broken or how

    def _look_at_the_file(self) -> os.stat_result | None:
        try:
            return os.lstat(self._path)
        except OSError:
            return None  # it was removed, which is an event

    def _judge(self, found: os.stat_result) -> None:
        """What is written by another name, or through a map of memory, is not an event here."""
        if not stat.S_ISREG(found.st_mode):
            self._breaks("it was a link or something else that is not a file")
        elif found.st_mtime_ns > self._placed or not self._keeps_content(found):
            self._breaks("it was written by another name, or through a map of memory")

    def _keeps_content(self, found: os.stat_result) -> bool:
        """A rank can set the mtime back, but not the ctime, which a chmod moves as well."""
        if found.st_ctime_ns <= self._placed or found.st_ctime_ns == self._compared:
            return True
        inode, content = self._read()
        if inode not in (0, found.st_ino):  # it was replaced meanwhile, which is an event
            return True
        self._compared = found.st_ctime_ns
        return content != b"" and content == self._content

    def _read(self) -> tuple[int, bytes]:
        """The file's inode and digest; b"" of one that is too large, and of what is not a file."""
        with contextlib.suppress(OSError):
            # It may be something else by now, such as a pipe that nobody writes to
            fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
            with open(fd, "rb") as file:
                found = os.fstat(fd)
                if not stat.S_ISREG(found.st_mode) or found.st_size > _COMPARED:
                    return found.st_ino, b""
                return found.st_ino, hashlib.sha256(file.read(_COMPARED)).digest()
        return 0, b""

    def close(self) -> None:
        self._watched.close()
