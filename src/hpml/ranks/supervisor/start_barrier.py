"""No rank begins before all of a launch are set up: where one cannot be, no answer has run.

What goes wrong until then is a fault of the machine's or ours, not of an answer.
"""

import contextlib
import os
from collections.abc import Callable

MAX_REASON = 500  # characters; a report is written in one piece (PIPE_BUF of pipe(7))


class StartBarrier:
    """Made before the fork of `world_size` ranks, each of which reports and then waits.

    `before` is called in the supervisor when all wait, before they go on.
    """

    def __init__(self, world_size: int, before: Callable[[], None] = lambda: None) -> None:
        self._before = before
        self._missing = self._world_size = world_size
        self._reports, self._report = os.pipe()
        self._going, self._go = os.pipe()
        os.set_blocking(self._reports, False)
        self.lifted = False  # all ranks have gone on
        self.failed = ""  # why that will never be

    def fileno(self) -> int:
        """In the supervisor: what can be read when a rank has reported."""
        return self._reports

    @property
    def open(self) -> bool:
        """Whether a report may still come."""
        return not self.lifted and not self.failed

    def look(self) -> None:
        """In the supervisor: take in what ranks have reported; let them go on when all have."""
        with contextlib.suppress(BlockingIOError):
            for reason in os.read(self._reports, 2**16).decode("utf-8", "replace").splitlines():
                self.failed = self.failed or reason
                self._missing -= 1
        if self._missing == 0 and self.open:
            self._before()
            os.write(self._go, b"g" * self._world_size)
            self.lifted = True

    def give_up(self, rank: int) -> None:
        """In the supervisor: this rank has ended, or its proxy has."""
        self.look()
        if not self.lifted:
            self.failed = self.failed or f"rank {rank} could not be set up: its process ended"

    def wait(self) -> None:
        """In a rank: it is set up. Returns when all are."""
        os.write(self._report, b"\n")
        gone_on = os.read(self._going, 1)
        self._close()
        if not gone_on:
            raise EOFError("the supervisor ended")

    def refuse(self, rank: int, error: BaseException) -> None:
        """In a rank: it cannot be set up."""
        why = " ".join(f"{type(error).__name__}: {error}".split())
        os.write(
            self._report, f"rank {rank} could not be set up: {why}"[:MAX_REASON].encode() + b"\n"
        )
        self._close()

    def _close(self) -> None:
        for fd in (self._reports, self._report, self._going, self._go):
            os.close(fd)
