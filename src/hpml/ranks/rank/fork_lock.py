"""A lock that holds between threads, and between a process and those that it forks."""

import errno
import os
import secrets
import socket
import sys
import tempfile
import threading
import time
from typing import IO

POLL = 0.0005  # seconds between two tries


class ForkLock:
    """A lock between threads, and between a rank and the processes that it forks.

    The kernel opens it when the process that holds it ends. It is a name that one socket at a time
    can have (abstract ones of unix(7)): file locks are refused in a sandbox. Elsewhere than on
    Linux it is a file lock.
    """

    def __init__(self) -> None:
        self._name = b"\0hpml-" + secrets.token_bytes(16)
        self._holding: socket.socket | None = None
        # Open until the rank ends
        self._file = None if sys.platform == "linux" else tempfile.TemporaryFile()  # noqa: SIM115
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._threads = threading.Lock()  # another thread may have held it during the fork
        if self._holding is not None:
            self._holding.close()
            self._holding = None

    def acquire(self, blocking: bool = True) -> bool:
        if not self._threads.acquire(blocking):
            return False
        try:
            while not self._taken():
                if not blocking:
                    self._threads.release()
                    return False
                time.sleep(POLL)
        except BaseException:
            self._threads.release()
            raise
        return True

    def _taken(self) -> bool:
        """Whether it is this process's now."""
        if self._file is not None:
            return _file_locked(self._file)
        holding = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            holding.bind(self._name)
        except OSError as error:
            holding.close()
            if error.errno != errno.EADDRINUSE:
                raise
            return False
        self._holding = holding
        return True

    def release(self) -> None:
        if self._holding is not None:
            self._holding.close()
            self._holding = None
        if self._file is not None:
            _unlock_file(self._file)
        self._threads.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def _file_locked(file: IO[bytes]) -> bool:
    import fcntl

    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _unlock_file(file: IO[bytes]) -> None:
    import fcntl

    fcntl.lockf(file, fcntl.LOCK_UN)
