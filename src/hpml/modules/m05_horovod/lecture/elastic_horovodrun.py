"""Elastic Horovod on this machine: start workers on two "hosts", lose one, let the other go on.

horovodrun asks a script which hosts there are, starts a worker in each free slot, and starts over
with those that are left when one fails: https://horovod.readthedocs.io/en/stable/elastic_include.html
Horovod starts nothing more on a host where a worker has failed. Two names of this machine,
localhost and 127.0.0.1, are two hosts to it.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from hpml.errors import UserError
from hpml.frameworks.run import ONE_THREAD, end, horovodrun

SCRIPT = Path(__file__).with_name("elastic_torch.py")
HOSTS = ("localhost", "127.0.0.1")
# Seconds: how long a rank waits for the others in Gloo, horovodrun for new workers
MEET, SLOTS = 20, 30


class Job:
    """A horovodrun with its workers, in a session of its own; `log` has their output."""

    def __init__(self, process: psutil.Popen, log: Path) -> None:
        self.process, self.log = process, log

    @property
    def said(self) -> list[str]:
        """The workers' own lines so far, without the launcher's prefix."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [line.partition(">:")[2] for line in lines if "]<stdout>:" in line]

    def wait_for(self, text: str, limit: float) -> bool:
        """Whether a worker prints `text` within `limit` seconds."""
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline and self.process.poll() is None:
            if any(text in line for line in self.said):
                return True
            time.sleep(0.05)
        return any(text in line for line in self.said)

    def lose(self, host: str) -> int:
        """Kill the workers on `host` at once; returns how many there were."""
        lost = []
        for child in self.process.children(recursive=True):
            try:
                own = child.environ().get("HOROVOD_HOSTNAME") == host
                if own and Path(child.exe()).samefile(sys.executable):
                    child.kill()
                    lost.append(child)
            except (psutil.NoSuchProcess, psutil.ZombieProcess, FileNotFoundError):
                continue
        psutil.wait_procs(lost, timeout=10)
        return len(lost)

    def wait(self, limit: float) -> int:
        """horovodrun's exit code. Raises psutil.TimeoutExpired after `limit` seconds."""
        return self.process.wait(timeout=limit)


@contextmanager
def job(
    script: Path, hosts: Sequence[str] = HOSTS, environment: Mapping[str, str] | None = None
) -> Iterator[Job]:
    """A script with a worker on each of `hosts`; one is enough to go on.

    Processes still running at the end are killed.
    """
    with tempfile.TemporaryDirectory(prefix="hpml-elastic-") as folder:
        discover = Path(folder) / "hosts.sh"
        discover.write_text("#!/bin/sh\n" + "".join(f"echo {host}:1\n" for host in hosts))
        discover.chmod(0o755)
        log = Path(folder) / "log"
        command = [*words(len(hosts), str(discover)), sys.executable, str(script)]
        own = {"HOROVOD_GLOO_TIMEOUT_SECONDS": str(MEET), "PYTHONUNBUFFERED": "1"}
        with log.open("w") as file:
            process = psutil.Popen(
                command,
                env={**os.environ, **ONE_THREAD, **own, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield Job(process, log)
        finally:
            end(process)


@dataclass(frozen=True)
class Loss:
    """A run that lost a host: horovodrun's exit code, what the workers printed, and the steps from
    which those that were left went on."""

    exit_code: int
    printed: tuple[str, ...]

    @property
    def went_on_from(self) -> list[int]:
        lines = [line for line in self.printed if line.startswith("workers: 1, from step")]
        return [int(line.split()[-1]) for line in lines]


def lose_second_host(
    step: int, environment: Mapping[str, str] | None = None, limit: float = 120.0
) -> Loss:
    """Train by SCRIPT on both HOSTS, kill the second when `step` is committed, and wait.

    Raises UserError where that step is not committed within `limit` seconds, and
    psutil.TimeoutExpired where horovodrun has not ended `limit` seconds after the loss. No process
    is left.
    """
    with job(SCRIPT, environment=environment) as running:
        if not running.wait_for(f"step {step}: committed", limit):
            raise UserError(f"{SCRIPT.name}: step {step} was not committed within {limit:g} s")
        running.lose(HOSTS[1])
        code = running.wait(limit)
        return Loss(code, tuple(running.said))


def words(most: int, discover: str) -> list[str]:
    """horovodrun's arguments for 1 to `most` workers."""
    return [
        *(horovodrun(), "--gloo", "-np", str(most), "--min-np", "1", "--max-np", str(most)),
        *("--host-discovery-script", discover, "--elastic-timeout", str(SLOTS)),
    ]
