"""Where a launch has its ranks from, in place of a warm server: the job step of an srun."""

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import psutil

from hpml.ranks import processes
from hpml.ranks.agent_connection import AT, KEY
from hpml.ranks.parent.job_step import JobStep


class SlurmRanks:
    """`using(SlurmRanks(words, …))`: launches have their ranks from there.

    `words` is an srun that starts `python -m hpml.ranks.agent.agent` once for each rank, from the
    folder `cwd`; `environment` is its own, whole, and its tasks'. `report` is called with a line
    where there is something to wait for, `began` when the ranks begin.
    """

    sandboxed = False
    spread = True  # over machines, maybe
    tmp = "/tmp"  # of each node

    def __init__(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        cwd: str,
        report: Callable[[str], None],
        began: Callable[[], None],
    ) -> None:
        self._words, self._environment, self._cwd = list(words), dict(environment), cwd
        self._report, self._began = report, began

    def folder(self, path: str | os.PathLike[str]) -> str:
        return os.fspath(path)

    def pids_here(self, pids: Sequence[int]) -> list[int]:
        """None: the ranks' processes are on other machines."""
        return []

    def fork_supervisor(self, control: socket.socket, fds: list[int]) -> None:
        """Start the step, and a thread that passes on what goes between `fds` and its ranks."""
        mine = [os.dup(fd) for fd in fds]
        step = JobStep(control.dup(), mine, self._start, self._report, self._began)
        threading.Thread(target=step.run, name="step", daemon=True).start()

    def end_all(self) -> None:
        """Nothing: the thread of the step ends with its control, and srun with it."""

    def _start(self, key: bytes, port: int) -> subprocess.Popen[bytes]:
        at = ",".join(f"{address}:{port}" for address in _addresses())
        return subprocess.Popen(
            self._words,
            env={**self._environment, AT: at, KEY: key.hex()},
            cwd=self._cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for the kernel, which ends the step
            # The parent is the step's thread. Told to, srun cancels what it has asked for.
            preexec_fn=partial(processes.die_with_parent, signal.SIGTERM),
        )


def _addresses() -> list[str]:
    """This machine's IPv4 addresses that others may reach."""
    found = psutil.net_if_addrs().values()
    return [
        one.address
        for each in found
        for one in each
        if one.family == socket.AF_INET and not one.address.startswith("127.")
    ] or ["127.0.0.1"]
