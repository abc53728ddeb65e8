"""MPI's own all-reduce algorithms, timed over the same emulated links as all others.

Each rank is a host of its own for mpirun, which starts its daemons through an agent: the agent
enters a rank's network namespace where ssh would log in. `mpi_hosts` does that, in a process of its
own; `mpi_rank` runs on each rank.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from hpml.errors import UserError
from hpml.network.link import parse_link

# Values of coll_tuned_allreduce_algorithm: `ompi_info --param coll tuned --level 9`
ALGORITHMS = {
    "default": 0,  # by size and number of ranks, as Open MPI decides
    "basic_linear": 1,
    "nonoverlapping": 2,  # reduce, then broadcast
    "recursive_doubling": 3,
    "ring": 4,
    "segmented_ring": 5,
    "rabenseifner": 6,
}
NO_NETWORK, TOO_LONG = 69, 75  # exit statuses of mpi_hosts


def missing() -> str | None:
    """Why MPI's algorithms cannot be measured here, in a few words; None where they can be."""
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        return "mpirun is not installed: apt install openmpi-bin"
    if importlib.util.find_spec("mpi4py") is None:
        return "mpi4py is not installed: run ./hpml"
    version = _output(mpirun, "--version")
    if "(Open MPI) 4." not in version:
        what = version.splitlines()[0] if version else "silent"
        return f"mpirun is {what}: what is used here are parameters of Open MPI 4"
    if "Open MPI" not in _output(sys.executable, "-m", "mpi4py", "--mpi-lib-version"):
        return "mpi4py finds no library of Open MPI: apt install libopenmpi3"
    for program in ("nsenter", "unshare"):
        if shutil.which(program) is None:
            return f"{program} is not installed: apt install util-linux"
    return None


def mpi_all_reduce_seconds(
    sizes: Sequence[int],
    world_size: int,
    link: str,
    algorithm: str = "default",
    repeats: int | Sequence[int] = 5,
    timeout: float = 120.0,
) -> list[list[float]]:
    """Seconds of MPI_Allreduce, for each of `sizes` (bytes, float32) those of each repeat.

    `repeats` is one number, or one for each size. Seconds are those of the slowest rank, after a
    first all-reduce that is not counted and whose sum is checked; each begins when all ranks are
    ready. `link` is what `hpml.ranks.launch` takes, `algorithm` one of `ALGORITHMS`. Ranks that
    wait give up the processor (mpi_yield_when_idle): there may be more of them than cores.

    Raises UserError for what is `missing`, where no network can be emulated, for an unknown
    algorithm, and if mpirun fails or takes longer than `timeout` seconds.
    """
    parse_link(link, world_size)
    chosen = tuned(algorithm)
    if why := missing():
        raise UserError(f"MPI: {why}")
    with tempfile.TemporaryDirectory(prefix=f"hpml-mpi-{os.getpid()}-") as scratch:
        program = str(Path(__file__).with_name("mpi_rank.py"))
        found = Path(scratch, "seconds.json")
        counts = [repeats] * len(sizes) if isinstance(repeats, int) else repeats
        work = [f"{nbytes}x{count}" for nbytes, count in zip(sizes, counts, strict=True)]
        rank = [sys.executable, program, str(found), *work]
        run_on_hosts(rank, world_size, link, scratch, chosen, timeout)
        return json.loads(found.read_text())


def tuned(algorithm: str) -> dict[str, str]:
    """The parameters by which Open MPI takes `algorithm`. Raises UserError for an unknown one."""
    if algorithm not in ALGORITHMS:
        raise UserError(f"MPI algorithm {algorithm!r} is not known: give {', '.join(ALGORITHMS)}")
    return {
        "coll_tuned_use_dynamic_rules": "1",
        "coll_tuned_allreduce_algorithm": str(ALGORITHMS[algorithm]),
    }


def run_on_hosts(
    command: Sequence[str],
    world_size: int,
    link: str,
    scratch: str,
    parameters: Mapping[str, str],
    timeout: float,
) -> str:
    """mpirun `command` on `world_size` emulated hosts, with Open MPI's `parameters`.

    Returns what they printed. `scratch` is an empty folder for its files. Raises UserError where no
    network can be emulated, and if mpirun fails or takes longer than `timeout` seconds.
    """
    hosts = [sys.executable, "-m", "hpml.allreduce.mpi_hosts"]
    network = [str(world_size), link, scratch, str(timeout)]
    words = [word for pair in parameters.items() for word in pair]
    done = subprocess.run(
        [*hosts, *network, *words, "--", *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout + 60,  # only where mpi_hosts is stuck itself
        env=_environment(),
    )
    if done.returncode == TOO_LONG:
        raise UserError(f"MPI: mpirun took longer than {timeout:g} s and was ended")
    if done.returncode == NO_NETWORK:
        raise UserError(f"MPI: no network can be emulated here: {done.stderr.strip()}")
    if done.returncode:
        last = "\n".join(done.stderr.strip().splitlines()[-12:])
        raise UserError(f"MPI: mpirun ended with {done.returncode}: {last}")
    return done.stdout


def _environment() -> dict[str, str]:
    """This process's variables, without those of a job or launcher, which mpirun would follow."""
    around = ("SLURM_", "PMI", "OMPI_", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(around)}
    source = str(Path(__file__).parents[2])
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, [source, kept.get("PYTHONPATH")]))
    return kept


def _output(*command: str) -> str:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout
