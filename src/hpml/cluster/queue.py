"""SLURM's queue: find the SLURM to use, submit a job, and follow it."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpml.cluster import needs
from hpml.cluster.access import environment
from hpml.cluster.folder import folder
from hpml.cluster.health import health
from hpml.cluster.job_script import JobScript, site_settings
from hpml.cluster.shape import Shape
from hpml.errors import UserError
from hpml.paths import CHECKOUT

# squeue(1), JOB STATE CODES: the job has not ended.
UNFINISHED = {
    *("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "STAGE_OUT", "SIGNALING", "STOPPED"),
    *("SUSPENDED", "RESIZING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"),
    *("RESV_DEL_HOLD", "REVOKED"),
}
PATIENCE = 120.0  # seconds that a SLURM may not answer


@dataclass(frozen=True)
class Slurm:
    """The SLURM to submit to. `shape` is that of our own cluster, None for any other.

    `settings` are the variables that its commands need besides this process's.
    """

    settings: Mapping[str, str]
    shape: Shape | None = None

    def run(
        self, *words: str, more: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run one of SLURM's commands; the finished process, with its output as text."""
        return subprocess.run(
            words,
            env={**os.environ, **self.settings, **(more or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            **options,
        )

    def gpus(self) -> bool:
        """Whether any node has GPUs. Ours have none, whatever they declare."""
        if self.shape is not None:
            return False
        done = self.run("sinfo", "--noheader", "--format=%G")
        return any(line.startswith("gpu") for line in re.split(r"[\n,]", done.stdout))


def find() -> Slurm:
    """Our cluster where it is up, else the machine's own SLURM. Raises UserError without either."""
    ours = folder()
    chosen = os.environ.get("SLURM_CONF")
    if ours.path.exists() and chosen in (None, str(ours.slurm_conf)):
        state = health()
        if state.problem:
            raise UserError(state.problem)
        return Slurm(environment(), state.shape)
    if needs.other_slurm() is None:
        raise UserError(
            "no SLURM answers here: log in to a cluster, or make one with ./hpml cluster up"
        )
    return Slurm({})


def login_environment(slurm: Slurm) -> dict[str, str]:
    """The environment of a shell on the login node, with slurm/site.sh's settings.

    If this process is in a job itself, that job's SLURM_* variables are left out. Raises UserError
    where site.sh cannot be read.
    """
    outer = {k: v for k, v in os.environ.items() if not k.startswith("SLURM_") or k == "SLURM_CONF"}
    script = JobScript(Path("job.slurm"), {})  # site.sh looks only for "gpu" in its name
    return {**outer, **slurm.settings, **site_settings(script, CHECKOUT)}


def submit(slurm: Slurm, words: Sequence[str], settings: Mapping[str, str], root: Path) -> str:
    """Submit a job with this sbatch line; its number. Raises UserError with sbatch's message."""
    done = slurm.run(*words, more={**this_python(), **settings}, cwd=root)
    number = re.search(r"Submitted batch job (\d+)", done.stdout)
    if done.returncode or not number:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise UserError(lines[-1] if lines else f"sbatch ended with exit code {done.returncode}")
    return number[1]


def follow(slurm: Slurm, job: str, report: Callable[[str], None], every: float = 0.5) -> str:
    """Report a job's states and print its log until it has ended; its last state.

    Of a job array all parts are waited for, and no log is shown. SLURM is asked each `every`
    seconds; one that is not ours, and serves others, each five.
    """
    before, asked_at, log = None, 0.0, None
    while True:
        if time.monotonic() - asked_at >= (every if slurm.shape else max(every, 5.0)):
            asked_at = time.monotonic()
            states_of = parts(slurm, job)
            states = [state for state, _ in states_of]
            told = [_format_state(state, reason) for state, reason in dict.fromkeys(states_of)]
            now = ", ".join(told)
            if log is None and len(states_of) == 1 and "PENDING" not in states:
                log = _log(slurm, job)
            if log is not None:
                log.show()
            if now != before:
                report(f"job {job}: {now}")
                before = now
            if not UNFINISHED.intersection(states):
                return next((state for state in states if state != "COMPLETED"), "COMPLETED")
        elif log is not None:
            log.show()
        time.sleep(every)


class _Log:
    """A job's output file, shown as it grows."""

    def __init__(self, path: Path) -> None:
        self.path, self.read = path, 0

    def show(self) -> None:
        try:
            with self.path.open("rb") as file:
                file.seek(self.read)
                new = file.read()
        except OSError:  # not written yet, or not visible from this machine
            return
        self.read += len(new)
        sys.stdout.write(new.decode(errors="replace"))
        sys.stdout.flush()


def _log(slurm: Slurm, job: str) -> _Log | None:
    found = re.search(r"^\s*StdOut=(.+)$", slurm.run("scontrol", "show", "job", job).stdout, re.M)
    return _Log(Path(found[1])) if found else None


def parts(slurm: Slurm, job: str) -> list[tuple[str, str]]:
    """State and reason of a job, or of each part of an array. Waits while SLURM does not answer."""
    limit = time.monotonic() + PATIENCE
    while True:
        done = slurm.run("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T|%r")
        if done.returncode == 0 and done.stdout.strip():
            lines = [line.partition("|") for line in done.stdout.split("\n")]
            return [(state, reason) for state, bar, reason in lines if bar]
        if done.returncode == 0 or "Invalid job id" in done.stderr:  # ended, no longer listed
            done = slurm.run("sacct", "-n", "-X", "-P", "-j", job, "--format=State")
            states = [line.split()[0] for line in done.stdout.splitlines() if line.strip()]
            return [(state, "None") for state in states] or [("UNKNOWN", "None")]
        if slurm.shape is not None and (problem := health().problem):
            raise UserError(f"job {job} cannot be followed: {problem}")
        if time.monotonic() > limit:
            last = done.stderr.strip().splitlines()[-1:] or ["squeue failed"]
            raise UserError(f"job {job} cannot be followed any more: {last[0]}")
        time.sleep(2.0)


def _format_state(state: str, reason: str) -> str:
    return state if reason in ("None", "") or state == "COMPLETED" else f"{state} ({reason})"


def this_python() -> dict[str, str]:
    """Variables with which a job uses this Python, if no shell has activated its environment."""
    if sys.prefix == sys.base_prefix or os.environ.get("VIRTUAL_ENV"):
        return {}
    path = os.pathsep.join([str(Path(sys.prefix) / "bin"), os.environ.get("PATH", os.defpath)])
    return {"VIRTUAL_ENV": sys.prefix, "PATH": path}
