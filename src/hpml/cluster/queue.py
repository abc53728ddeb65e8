"""Jobs in SLURM's queue: which SLURM, what it has, handing a job in, and following it."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpml.cluster import needs
from hpml.cluster.folder import folder
from hpml.cluster.health import health
from hpml.cluster.inside import environment
from hpml.cluster.job_script import JobScript, site_settings
from hpml.cluster.shape import Shape
from hpml.errors import UserError
from hpml.paths import CHECKOUT

# squeue(1), JOB STATE CODES: what is not the end.
GOING_ON = {
    *("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "STAGE_OUT", "SIGNALING", "STOPPED"),
    *("SUSPENDED", "RESIZING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"),
    *("RESV_DEL_HOLD", "REVOKED"),
}
PATIENCE = 120.0  # seconds that a SLURM may leave questions unanswered


@dataclass(frozen=True)
class Slurm:
    """The SLURM to submit to. `shape` is our own cluster's, None for one that is not ours.

    `settings` are what its commands need in their environment besides what this process has.
    """

    settings: Mapping[str, str]
    shape: Shape | None = None

    def ask(self, *words: str, more: Mapping[str, str] | None = None, **options: object):
        """Run one of SLURM's commands and return how it ended, with its output as text."""
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
        """Whether any node has GPUs."""
        told = self.ask("sinfo", "--noheader", "--format=%G")
        return any(line.startswith("gpu") for line in re.split(r"[\n,]", told.stdout))


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
            "no SLURM answers here: log in to a cluster, or make one with ./hpml cluster up; "
            "--dry-run only prints"
        )
    return Slurm({})


def login(slurm: Slurm) -> dict[str, str]:
    """The environment of a shell on the login node, with what slurm/site.sh says of this cluster.

    This process may be in a job itself, whose variables are none of the next job's. Raises
    UserError where site.sh cannot be read.
    """
    outer = {k: v for k, v in os.environ.items() if not k.startswith("SLURM_") or k == "SLURM_CONF"}
    script = JobScript(Path("job.slurm"), {})  # of its name, site.sh asks only whether it has GPUs
    return {**outer, **slurm.settings, **site_settings(script, CHECKOUT)}


def submit(slurm: Slurm, words: Sequence[str], settings: Mapping[str, str], root: Path) -> str:
    """Hand a job in with this sbatch line; its number. Raises UserError with what sbatch says."""
    told = slurm.ask(*words, more={**_this_python(), **settings}, cwd=root)
    number = re.search(r"Submitted batch job (\d+)", told.stdout)
    if told.returncode or not number:
        said = (told.stderr.strip() or told.stdout.strip()).splitlines()
        raise UserError(said[-1] if said else f"sbatch ended with exit code {told.returncode}")
    return number[1]


def follow(slurm: Slurm, job: str, say: Callable[[str], None], every: float = 0.5) -> str:
    """Tell what becomes of a job and what it writes, until it has ended; its last state.

    Of a job array all parts are waited for, and none of their logs is shown. Asks SLURM each
    `every` seconds, or five where it is not ours: there it has others to serve.
    """
    before, told_at, log = None, 0.0, None
    while True:
        if time.monotonic() - told_at >= (every if slurm.shape else max(every, 5.0)):
            told_at = time.monotonic()
            parts = _parts(slurm, job)
            states = [state for state, _ in parts]
            now = ", ".join(_said(state, reason) for state, reason in dict.fromkeys(parts))
            if log is None and len(parts) == 1 and "PENDING" not in states:
                log = _log(slurm, job)
            if log is not None:
                log.show()
            if now != before:
                say(f"job {job}: {now}")
                before = now
            if not GOING_ON.intersection(states):
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
        except OSError:  # not there yet, or not seen from here
            return
        self.read += len(new)
        sys.stdout.write(new.decode(errors="replace"))
        sys.stdout.flush()


def _log(slurm: Slurm, job: str) -> _Log | None:
    found = re.search(r"^\s*StdOut=(.+)$", slurm.ask("scontrol", "show", "job", job).stdout, re.M)
    return _Log(Path(found[1])) if found else None


def _parts(slurm: Slurm, job: str) -> list[tuple[str, str]]:
    """State and reason of a job, or of each part of a job array. Waits while SLURM is silent."""
    limit = time.monotonic() + PATIENCE
    while True:
        told = slurm.ask("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T|%r")
        if told.returncode == 0 and told.stdout.strip():
            return [tuple(line.split("|", 1)) for line in told.stdout.split("\n") if "|" in line]
        if told.returncode == 0 or "Invalid job id" in told.stderr:  # ended, and forgotten
            told = slurm.ask("sacct", "-n", "-X", "-P", "-j", job, "--format=State")
            states = [line.split()[0] for line in told.stdout.splitlines() if line.strip()]
            return [(state, "None") for state in states] or [("UNKNOWN", "None")]
        if slurm.shape is not None and (problem := health().problem):
            raise UserError(f"job {job} cannot be followed: {problem}")
        if time.monotonic() > limit:
            last = told.stderr.strip().splitlines()[-1:] or ["squeue failed"]
            raise UserError(f"job {job} cannot be followed any more: {last[0]}")
        time.sleep(2.0)


def _said(state: str, reason: str) -> str:
    return state if reason in ("None", "") or state == "COMPLETED" else f"{state} ({reason})"


def _this_python() -> dict[str, str]:
    """Has the job use this Python, where it is an environment's that no shell has activated."""
    if sys.prefix == sys.base_prefix or os.environ.get("VIRTUAL_ENV"):
        return {}
    path = os.pathsep.join([str(Path(sys.prefix) / "bin"), os.environ.get("PATH", os.defpath)])
    return {"VIRTUAL_ENV": sys.prefix, "PATH": path}
