"""What a launch's caller holds from another thread: to end it early, or to start its time limit."""

import math
import os
import time
import weakref


class Cancelled(Exception):
    """The launch was ended by its caller: it has no evidence."""


class Leash:
    """For the launches of one play, one after the other. Methods may be called from any thread.

    Launches that share the machine with others have no time limit, since it would shrink as others
    take processor time; hangs and endless loops are found all the same. After `alone` the limit
    counts.
    """

    def __init__(self) -> None:
        self.since = math.inf  # of time.monotonic, from which a launch's time limit counts
        self._read, self._write = os.pipe()
        self._end = weakref.finalize(self, _close, self._read, self._write)

    def fileno(self) -> int:
        """Readable from the moment of `cancel`."""
        return self._read

    def cancel(self) -> None:
        """End the launch that is under way, and those to come, at once: they raise Cancelled."""
        os.write(self._write, b"c")

    def alone(self) -> None:
        """The launch has the machine to itself from now on: its time limit counts from here."""
        self.since = time.monotonic()

    def close(self) -> None:
        """Else it is closed when nobody holds it any more."""
        self._end()


def _close(*fds: int) -> None:
    for fd in fds:
        os.close(fd)
