"""A lecture measures: while it runs, no other worker of pytest-xdist runs a test.

Beside others a lecture takes several times as long, and runs into its limit. The price: where it
waits, or computes on one core, the rest of the machine is idle.
"""

import fcntl
import os
from pathlib import Path

import pytest

from .order import LECTURES, group


class Alone:
    """In a worker. `folder` is the same for all of a run."""

    def __init__(self, folder: Path) -> None:
        self._gate, self._room = (os.open(folder / n, os.O_CREAT) for n in ("gate", "room"))

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # outside of the test's own limit
    def pytest_runtest_protocol(self, item):
        alone = group(item) == f"@{LECTURES}"
        # Who wants the room alone keeps the gate: others who came later would else go on for ever
        fcntl.flock(self._gate, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            if not alone:
                fcntl.flock(self._gate, fcntl.LOCK_UN)
            return (yield)
        finally:
            # A test's forked child has the same lock: to close the files would not give it back
            fcntl.flock(self._room, fcntl.LOCK_UN)
            fcntl.flock(self._gate, fcntl.LOCK_UN)
