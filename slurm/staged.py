"""Run a command with the images on the node's own disk: what slurm/02_staging.slurm starts.

    python slurm/staged.py COMMAND...

The first rank of a node copies the images there, the others wait for it; all then run the command
with HPML_DATA set to the copy. It is removed when the command has ended, whatever the end was, and
as soon as SLURM asks the job to stop (scancel, time limit): what a process has mapped stays
readable until it ends (unlink(2)). Only a SIGKILL at once leaves it behind.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from hpml.data import sources

disk = Path(os.environ.get("HPML_NODE_DISK") or tempfile.gettempdir())
copy = disk / f"hpml-{os.environ.get('SLURM_JOB_ID', 'here')}"
part, lock = copy.with_suffix(".part"), copy.with_suffix(".lock")
first = os.environ.get("SLURM_LOCALID", "0") == "0"
child: subprocess.Popen | None = None


def remove() -> None:
    for folder in (part, copy):
        shutil.rmtree(folder, ignore_errors=True)
    lock.unlink(missing_ok=True)


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
        remove()  # a job that was put back into the queue has the same number
        before = time.perf_counter()
        folder = sources.load().folder
        part.mkdir(mode=0o700, parents=True)
        shutil.copytree(folder, part / folder.name)
        part.rename(copy)
        nbytes = sum(path.stat().st_size for path in copy.rglob("*") if path.is_file())
        took = time.perf_counter() - before
        host = os.uname().nodename
        print(f"{host}: {nbytes / 1e6:.0f} MB staged to {copy} in {took:.1f} s", flush=True)
    while not copy.exists():
        time.sleep(0.1)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_SH)  # "I read it": until this process ends, in whatever way
        child = subprocess.Popen(sys.argv[1:], env={**os.environ, "HPML_DATA": str(copy)})
        status = child.wait()
        if first:
            fcntl.flock(held, fcntl.LOCK_EX)  # the other ranks of this node have ended
finally:
    if first:
        remove()
raise SystemExit(status if status >= 0 else 128 - status)
