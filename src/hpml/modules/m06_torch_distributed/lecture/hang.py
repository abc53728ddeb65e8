"""A job that hangs under torchrun, looked at with the tools that a cluster has too.

The job is `hanging_job.py`. With the bug "stuck" its rank 1 never comes back from reading its third
batch; with "short" it has one batch less than the others, and calls a barrier when they still
average gradients.
"""

import contextlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from hpml.errors import UserError
from hpml.frameworks.run import end, start
from hpml.publish import skip

JOB = Path(__file__).with_name("hanging_job.py")
RANKS = 3
PATIENCE = 120.0  # seconds, for each job here; one takes about ten


@dataclass(frozen=True)
class Place:
    """Where a rank is: the innermost line of the job's own script on its stack."""

    rank: int
    function: str
    line: int
    call: str  # the source of that line

    def __str__(self) -> str:
        return f"rank {self.rank}: {self.function}, line {self.line:2}: {self.call}"


def stacks(bug: str) -> list[Place]:
    """Start the job with this `bug`, and ask py-spy where each rank hangs, in the order of ranks.

    py-spy reads another process's stack from outside: the job needs no preparation
    (https://github.com/benfred/py-spy). A job hangs where two looks, a second apart, see the same
    lines and nobody computes. No process of the job is left.

    Raises UserError where py-spy may not look into another process (then the job can print its own
    stacks: faulthandler.register), or where the job does not come to a standstill in time.
    """
    limit = time.monotonic() + PATIENCE
    with _job(bug) as (torchrun, log):
        before: list[Place] = []
        while time.monotonic() < limit and torchrun.poll() is None:
            ranks = _ranks(torchrun.pid) if log.read_text().count("step 0 done") == RANKS else {}
            now = [_place(rank, ranks[rank]) for rank in sorted(ranks)]
            places = [place for place in now if place is not None]
            if places and places == before:
                return places
            before = places if len(places) == len(now) else []
            time.sleep(1.0)
        raise UserError(f"{JOB.name} with the bug {bug!r} did not hang within {PATIENCE:g} s")


def show_stacks(bug: str) -> list[Place]:
    """Print and return `stacks(bug)`; where py-spy may not look, show that, and return none."""
    try:
        places = stacks(bug)
    except UserError as error:
        skip("the stacks of a job that hangs", str(error))
        return []
    print(*places, sep="\n")
    return places


def listing() -> str:
    """The job's functions as text, each line with its number in the file."""
    lines = JOB.read_text(encoding="utf-8").splitlines()
    first = next(k for k, line in enumerate(lines) if line.startswith("def "))
    last = next(k for k, line in enumerate(lines) if line.startswith("if __name__"))
    while not lines[last - 1]:
        last -= 1
    return "\n".join(f"{k + 1:3}  {lines[k]}".rstrip() for k in range(first, last))


def complaints(bug: str, *, monitor: bool = False, detail: bool = False) -> dict[int, str]:
    """Run the job with this `bug`, and a limit of 3 s on every wait: each rank's error, by rank.

    `monitor`: a monitored_barrier before each step. `detail`: TORCH_DISTRIBUTED_DEBUG=DETAIL.
    torchrun ends all ranks when one has failed, so some may have no error. No process is left.

    Raises UserError where the job does not end in time.
    """
    options = {"HPML_LIMIT": "3", "HPML_MONITOR": str(int(monitor))}
    if detail:
        options["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
    with _job(bug, **options) as (torchrun, log):
        try:
            torchrun.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise UserError(f"{JOB.name} did not end within {PATIENCE:g} s") from None
        errors = re.findall(r"^\[rank(\d)\]: RuntimeError: (.*)$", log.read_text(), re.MULTILINE)
    return {int(rank): _shorter(text) for rank, text in sorted(errors)}


@contextlib.contextmanager
def _job(bug: str, **environment: str) -> Iterator[tuple[subprocess.Popen, Path]]:
    """The job under torchrun, and its log; all its processes are ended at the end."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    with tempfile.TemporaryDirectory(prefix="hpml-hang-") as folder:
        log = Path(folder) / "log"
        own = {"HPML_BUG": bug, "TMPDIR": folder, **environment}
        process = start([*torchrun, f"--nproc-per-node={RANKS}", str(JOB)], own, log)
        try:
            yield process, log
        finally:
            end(process)


def _ranks(torchrun: int) -> dict[int, psutil.Process]:
    """The processes below `torchrun` that have a rank, by rank."""
    ranks = {}
    for process in psutil.Process(torchrun).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            rank = process.environ().get("RANK")
            if rank is not None:
                ranks.setdefault(int(rank), process)
    return ranks


def _place(rank: int, process: psutil.Process) -> Place | None:
    """Where that rank waits; None where it computes, is not in the job's script, or has ended."""
    if not _sleeps(process):
        return None
    beside = Path(sys.executable).with_name("py-spy")
    program = str(beside) if beside.exists() else shutil.which("py-spy") or "py-spy"
    done = subprocess.run(
        [program, "dump", "--json", "--pid", str(process.pid)],
        capture_output=True,
        text=True,
        timeout=30,
    )
    if done.returncode and not _sleeps(process):  # it has ended, or is ending, meanwhile
        return None
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise UserError(f"py-spy cannot look into another process here: {why}")
    threads = json.loads(done.stdout)
    frames = [frame for thread in threads for frame in thread["frames"]]  # innermost first
    frame = next((frame for frame in frames if frame["filename"] == str(JOB)), None)
    if frame is None:
        return None
    source = JOB.read_text(encoding="utf-8").splitlines()[frame["line"] - 1]
    return Place(rank, frame["name"], frame["line"], source.partition("  #")[0].strip())


def _sleeps(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_SLEEPING
    except psutil.NoSuchProcess:
        return False


def _shorter(error: str) -> str:
    """An error without the library's own source lines and the tensors' properties."""
    error = re.sub(r"^\[/\S*\] ", "", error)
    fingerprint = r"CollectiveFingerPrint\(.*?OpType=(\w+).*?(?=, but Rank|\.Collectives|$)"
    error = re.sub(fingerprint, r"\1", error)
    return error.split(".Collectives differ")[0]
