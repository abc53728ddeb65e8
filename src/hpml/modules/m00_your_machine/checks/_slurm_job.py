"""Submit a job script to this machine's SLURM, and collect what it ran.

A script never runs in this process: sbatch gets it with a time limit, and the job is cancelled
afterwards.
"""

import contextlib
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hpml.checks.contract import CannotJudge
from hpml.errors import UserError
from hpml.paths import CHECKOUT

PATIENCE = 90.0  # seconds for a job that takes a second, waiting included
LOG = 100_000  # characters of a file that are read


@dataclass(frozen=True)
class Part:
    """One job, or one part of an array, with the fields that scontrol prints."""

    facts: Mapping[str, str]

    @property
    def index(self) -> int:
        """Its number in the array, -1 without an array or while several parts wait as one."""
        number = self.facts.get("ArrayTaskId", "")
        return int(number) if re.fullmatch(r"\d{1,9}", number) else -1

    @property
    def state(self) -> str:
        return self.facts["JobState"]


@dataclass(frozen=True)
class Submission:
    """The outcome of a submission. `refused` is sbatch's error; if empty, the rest is set."""

    refused: str = ""
    job: str = ""
    ended: bool = False  # within PATIENCE
    parts: tuple[Part, ...] = ()
    files: Mapping[str, str] = field(
        default_factory=dict
    )  # what lies in the job's folder at the end, by name


def submit(
    script: str, files: Mapping[str, str], *, test_only: bool = False
) -> Submission | CannotJudge:
    """Submit `script` from a folder with these `files`, and wait until the job has ended.

    With `test_only` SLURM only checks whether it would accept it. CannotJudge if no SLURM answers.
    """
    from hpml.cluster import queue  # imported only where a SLURM is needed

    try:
        slurm = queue.find()
        environment = queue.login_environment(slurm)
    except UserError as error:
        return CannotJudge(str(error))
    jobs = CHECKOUT / "build" / "jobs"  # all nodes share the project's folder, but not /tmp
    jobs.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="check-", dir=jobs))
    job = ""
    try:
        for name, text in {**files, "job.slurm": script}.items():
            (folder / name).write_text(text)
        more = ["--test-only"] if test_only else []
        returned = _ask(environment, folder, "sbatch", *more, "job.slurm")
        number = re.search(r"Submitted batch job (\d+)", returned.stdout)
        if returned.returncode or not (number or test_only):
            messages = (
                returned.stderr.strip() or returned.stdout.strip() or "sbatch failed"
            ).splitlines()
            return Submission(refused=messages[-1])
        if number is None:  # it was a test only
            return Submission()
        job = number[1]
        ended, parts = _wait(environment, folder, job, 0.3 if slurm.shape else 2.0)
        return Submission("", job, ended, parts, _written(folder))
    except (OSError, subprocess.TimeoutExpired) as error:
        return CannotJudge(f"the SLURM here does not answer: {error}")
    finally:
        if job:
            _cancel(environment, folder, job)
        shutil.rmtree(folder, ignore_errors=True)


def _ask(environment: Mapping[str, str], folder: Path, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        words,
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
    )


def _wait(
    environment: Mapping[str, str], folder: Path, job: str, every: float
) -> tuple[bool, tuple[Part, ...]]:
    from hpml.cluster.queue import UNFINISHED

    limit = time.monotonic() + PATIENCE
    while True:
        returned = _ask(environment, folder, "scontrol", "--oneliner", "show", "job", job)
        lines = [line for line in returned.stdout.splitlines() if "JobState=" in line]
        parts = tuple(Part(dict(re.findall(r"(\S+?)=(\S*)", line))) for line in lines)
        ended = bool(parts) and all(part.state not in UNFINISHED for part in parts)
        if ended or time.monotonic() > limit:
            return ended, tuple(sorted(parts, key=lambda part: part.index))
        time.sleep(every)


def _cancel(environment: Mapping[str, str], folder: Path, job: str) -> None:
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):  # it has a time limit of its own
        _ask(environment, folder, "scancel", job)


def _written(folder: Path) -> dict[str, str]:
    """The beginning of each file: a job can write more than fits into memory."""
    found = {}
    for path in folder.iterdir():
        if path.is_file() and not path.is_symlink():
            with path.open(errors="replace") as file:
                found[path.name] = file.read(LOG)
    return found
