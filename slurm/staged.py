"""Run a command with the images on the node's own disk: what slurm/02_staging.slurm starts.

    python slurm/staged.py COMMAND...

The first rank of a node copies the images there, the others wait for it; all then run the command
with HPML_DATA set to the copy. It is removed when the command has ended, whatever the end was, and
as soon as SLURM asks the job to stop (scancel, time limit): what a process has mapped stays
readable until it ends (unlink(2)). Only a SIGKILL at once leaves it behind; the next job on that
node removes it.

A lock beside the copy says whose it is: each rank has a share of it, which ends with its process
(flock(2)). A lock of which nobody has a share belongs to a job that is gone.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

from hpml.data import sources

disk = Path(os.environ.get("HPML_NODE_DISK") or tempfile.gettempdir())
copy = disk / f"hpml-{os.environ.get('SLURM_JOB_ID', 'here')}"
lock = copy.with_suffix(".lock")
first = os.environ.get("SLURM_LOCALID", "0") == "0"
child: subprocess.Popen | None = None


def remove(lock: Path = lock) -> None:
    """The lock goes last: what is left of a removal that was killed can be found by it."""
    for folder in (lock.with_suffix(".part"), lock.with_suffix("")):
        shutil.rmtree(folder, ignore_errors=True)
    lock.unlink(missing_ok=True)


def is_still(file: IO[str], path: Path) -> bool:
    """Whether an open file is what the path leads to: another process may have removed it."""
    return path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat())


def share() -> IO[str]:
    """A share of the lock, until this process ends, in whatever way."""
    while True:
        file = lock.open("w")
        fcntl.flock(file, fcntl.LOCK_SH)
        if is_still(file, lock):
            return file
        file.close()


def sweep() -> None:
    """Remove what jobs have left here that are gone."""
    for other in disk.glob("hpml-[0-9]*.lock"):
        with contextlib.suppress(OSError), other.open() as file:  # held, another's, or just gone
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_still(file, other):
                remove(other)


def stop(number: int, frame: object) -> None:
    if first:
        remove()
    if child is None:
        raise SystemExit(128 + number)  # while copying
    child.send_signal(number)  # and its exit code becomes this one's


for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, stop)
try:
    if first:
        disk.mkdir(parents=True, exist_ok=True)
        sweep()
        remove()  # a job that was put back into the queue has the same number
        held = share()
        before = time.perf_counter()
        folder = sources.load().folder
        part = copy.with_suffix(".part")
        part.mkdir(mode=0o700)
        shutil.copytree(folder, part / folder.name)
        part.rename(copy)
        nbytes = sum(path.stat().st_size for path in copy.rglob("*") if path.is_file())
        took = time.perf_counter() - before
        host = os.uname().nodename
        print(f"{host}: {nbytes / 1e6:.0f} MB staged to {copy} in {took:.1f} s", flush=True)
    while not copy.exists():
        time.sleep(0.1)
    if not first:
        held = share()
    child = subprocess.Popen(sys.argv[1:], env={**os.environ, "HPML_DATA": str(copy)})
    status = child.wait()
    if first:
        fcntl.flock(held, fcntl.LOCK_EX)  # the other ranks of this node have ended
finally:
    if first:
        remove()
raise SystemExit(status if status >= 0 else 128 - status)
