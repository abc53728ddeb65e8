"""Ends what outlives a worker of pytest-xdist that was killed, as by pytest-timeout.

What a test starts has processes of its own, in sessions and namespaces of their own. They keep the
processors from all tests after, and then those take too long too. All have inherited the variables
by which pytest-xdist names a worker and its run.
"""

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest

PATIENCE = 10.0  # seconds, until none is left
RUN, WORKER = "PYTEST_XDIST_TESTRUNUID", "PYTEST_XDIST_WORKER"


def inherited(**variables: str) -> list[int]:
    """The ids of processes that began with these variables, without this one."""
    wanted = {f"{name}={value}".encode() for name, value in variables.items()}
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if wanted <= set((entry / "environ").read_bytes().split(b"\0")):
                found.append(int(entry.name))
    return [pid for pid in found if pid != os.getpid()]


def end(**variables: str) -> None:
    """Kill all that began with these variables, and what they start meanwhile."""
    until = time.monotonic() + PATIENCE
    while (found := inherited(**variables)) and time.monotonic() < until:
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


class Orphans:
    """In the process that the user started."""

    def __init__(self) -> None:
        self._runs: set[str] = set()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node) -> None:
        self._runs.add(node.workerinput["testrunuid"])

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node, error) -> None:
        if error:
            name = node.workerinput["workerid"]
            end(**{RUN: node.workerinput["testrunuid"], WORKER: name})

    def pytest_unconfigure(self) -> None:
        for run in self._runs:
            end(**{RUN: run})
