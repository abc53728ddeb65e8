"""A lock that holds between threads, and between a process and those that it forks."""

import fcntl
import os
import tempfile
import threading


class ForkLock:
    """A lock between threads, and between a rank and the processes that it forks.

    The kernel opens it when the process that holds it ends.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  open until the rank ends
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._threads = threading.Lock()  # another thread may have held it during the fork

    def acquire(self, blocking: bool = True) -> bool:
        if not self._threads.acquire(blocking):
            return False
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | (0 if blocking else fcntl.LOCK_NB))
        except BaseException as error:
            self._threads.release()
            if isinstance(error, OSError) and not blocking:
                return False
            raise
        return True

    def release(self) -> None:
        fcntl.lockf(self._file, fcntl.LOCK_UN)
        self._threads.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()
