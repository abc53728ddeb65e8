"""On which cores of this machine Open MPI's mpirun lets each rank run."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

from hpml.errors import UserError

LIMIT = 60.0  # seconds; two ranks take one

ASK = (
    "import json, os; "
    "print(json.dumps([int(os.environ['OMPI_COMM_WORLD_RANK']), *os.sched_getaffinity(0)]) + '\\n',"
    " end='', flush=True)"
)


def cores_by_rank(options: Sequence[str] = (), ranks: int = 2) -> list[list[int]]:
    """For each rank the numbers of the cores that it may use, with these options of mpirun.

    mpirun's own defaults are described under "Quick Summary" in its manual page, mpirun(1).

    Raises UserError where there is no Open MPI, it declines the options, or takes too long.
    """
    if not shutil.which("mpirun"):
        raise UserError("mpirun: there is none here: ./hpml doctor says how to get it")
    command = ["mpirun", "--allow-run-as-root", "-np", str(ranks), *options]
    try:
        done = subprocess.run(
            [*command, sys.executable, "-c", ASK],
            capture_output=True,
            text=True,
            timeout=LIMIT,
            # MPI that runs in this process has set variables past Python, with which mpirun takes
            # itself for a rank, and fails without a word; these are Python's alone
            env=dict(os.environ),
        )
    except subprocess.TimeoutExpired:
        words = " ".join(["mpirun", *options])
        raise UserError(f"{words}: not done after {LIMIT:g} s") from None
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip(" -")]
        raise UserError(f"mpirun {' '.join(options)}: {(lines or ['failed'])[0]}")
    rows = sorted(json.loads(line) for line in done.stdout.splitlines() if line.strip())
    return [sorted(cores) for _, *cores in rows]


def per_socket(ranks: int, sockets: int) -> str:
    """mpirun's options that share `ranks` out over the sockets, each rank bound to its own one."""
    return f"--map-by ppr:{-(-ranks // sockets)}:socket --bind-to socket"
