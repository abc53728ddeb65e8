"""Which rank am I, of how many, and where do we meet? Asked of the launcher's environment.

torchrun: https://docs.pytorch.org/docs/stable/elastic/run.html, "Environment Variables";
srun: https://slurm.schedmd.com/srun.html, "OUTPUT ENVIRONMENT VARIABLES";
horovodrun: runner/gloo_run.py of Horovod 0.28; mpirun: Open MPI's manual page;
mpiexec of MPICH and Intel MPI: what `mpiexec.hydra -n 2 env` of MPICH 4.0 prints; flux:
flux-environment(7); jsrun: "LSFEnvironment" in the documentation of PyTorch Lightning.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from hpml.errors import UserError

# Launcher; its variables for the rank, the number of ranks, the rank on its node
_MEET_BY_THEMSELVES = (
    ("horovodrun", "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK"),
    ("mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
)
# The same of those whose user has to export MASTER_ADDR and MASTER_PORT
_MEET_AT_MASTER_ADDR = (
    ("jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK"),
    ("flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID"),
    ("mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
)
# Of SLURM, the step's before the job's
_TASKS = ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
_NODES = ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST")
FIRST_PORT, PORTS = 20_000, 12_000  # below the range that Linux hands out by itself (32768 up)


@dataclass(frozen=True)
class ProcessInfo:
    """One process among `world_size`: `rank` over all nodes, `local_rank` on its own node.

    `address` and `port` are where rank 0 listens; `launcher` is "torchrun", "srun", "mpiexec",
    "jsrun", "flux", "horovodrun", "mpirun" or "none". The last three have no such address: Horovod
    and MPI meet in their own ways.
    """

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    address: str = "127.0.0.1"
    port: int = 0
    launcher: str = "none"


def read(environment: Mapping[str, str] | None = None) -> ProcessInfo:
    """What the environment (default: this process's) gives as rank, world size and address.

    Other launchers' variables win over SLURM's, because they are also started inside SLURM jobs.
    SLURM's are believed only in a job step: a plain `python` in a batch script is one process,
    though the job around it has SLURM_NTASKS. With neither, a single process.

    Raises UserError when a variable is missing or is not what it should be, or when those of two
    launchers cannot both be true.
    """
    environment = os.environ if environment is None else environment
    if "RANK" in environment and "WORLD_SIZE" in environment:
        _refuse_one_rank_for_all(environment)
        process = ProcessInfo(
            rank=_number(environment, "RANK"),
            world_size=_number(environment, "WORLD_SIZE"),
            local_rank=_number(environment, "LOCAL_RANK"),
            address=_host(environment),
            port=_port(environment),
            launcher="torchrun",
        )
    elif own := _of_horovod_or_mpi(environment):
        launcher, rank, world_size, local_rank = own
        process = ProcessInfo(
            rank=_number(environment, rank),
            world_size=_number(environment, world_size),
            local_rank=_number(environment, local_rank),
            launcher=launcher,
        )
    elif other := _without_address(environment):
        process = other
    elif "SLURM_PROCID" in environment and "SLURM_STEP_ID" in environment:
        process = ProcessInfo(
            rank=_number(environment, "SLURM_PROCID"),
            world_size=_number(environment, _there(environment, *_TASKS)),
            local_rank=_number(environment, "SLURM_LOCALID"),
            address=_host(environment)
            if environment.get("MASTER_ADDR")
            else expand_hosts(_text(environment, _there(environment, *_NODES)))[0],
            port=_port(environment)
            if environment.get("MASTER_PORT")
            else job_port(
                _number(environment, "SLURM_JOB_ID"), _number(environment, "SLURM_STEP_ID")
            ),
            launcher="srun",
        )
    else:
        return ProcessInfo()
    if process.rank >= process.world_size:
        raise UserError(
            f"{process.launcher}: rank {process.rank} of {process.world_size} ranks cannot be: "
            "ranks count from 0; unset what is left over in the environment"
        )
    return process


def _of_horovod_or_mpi(environment: Mapping[str, str]) -> tuple[str, str, str, str] | None:
    """The launcher, and the names of its variables, where it is one of those."""
    return next((names for names in _MEET_BY_THEMSELVES if names[1] in environment), None)


def _without_address(environment: Mapping[str, str]) -> ProcessInfo | None:
    """The process where one of `_MEET_AT_MASTER_ADDR` started it."""
    found = next((names for names in _MEET_AT_MASTER_ADDR if names[1] in environment), None)
    if found is None:
        return None
    launcher, rank, world_size, local_rank = found
    # srun sets PMI_RANK as well, for MPI; MPICH's mpiexec in a job starts its helpers by srun
    same = environment.get("PMI_RANK"), environment.get("PMI_SIZE")
    if launcher == "mpiexec" and same == (
        environment.get("SLURM_PROCID"),
        environment.get(_there(environment, *_TASKS)),
    ):
        return None
    size = _number(environment, world_size)
    place = ProcessInfo(_number(environment, rank), size, launcher=launcher)
    if size == 1:
        return place
    if not environment.get("MASTER_ADDR"):
        raise UserError(
            f"{launcher} starts {size} ranks and does not say where they meet: export MASTER_ADDR "
            "(rank 0's node) and MASTER_PORT, or start them by srun or torchrun"
        )
    return replace(
        place,
        local_rank=_number(environment, local_rank),
        address=_host(environment),
        port=_port(environment),
    )


def _refuse_one_rank_for_all(environment: Mapping[str, str]) -> None:
    """UserError where RANK was exported in the batch script, so that all tasks of srun have it.

    torchrun sets its own in each of its processes; so does a program that starts others, of which
    there are then more than tasks.
    """
    task, tasks = environment.get("SLURM_PROCID"), environment.get("SLURM_STEP_NUM_TASKS")
    if "TORCHELASTIC_RUN_ID" in environment or environment["WORLD_SIZE"] != tasks:
        return
    if task != environment["RANK"]:
        raise UserError(
            f"RANK is {environment['RANK']!r}, and srun says that this is rank {task} of {tasks}: "
            "do not export RANK and WORLD_SIZE in the batch script"
        )


def job_port(job: int, step: int = 0) -> int:
    """A port that every task of a job step works out alike, and that jobs on one node differ in."""
    return FIRST_PORT + (job * 61 + step) % PORTS


def expand_hosts(hosts: str) -> list[str]:
    """SLURM's compressed host list in full: "n[01-02,7],gpu3" is n01, n02, n7, gpu3.

    Several brackets in one name multiply, as in "rack[1-2]n[1-2]". Raises UserError when brackets
    or ranges do not add up.
    """
    # Split at the commas that are outside of brackets.
    names = re.findall(r"(?:[^,\[\]]|\[[^\[\]]*\])+", hosts)
    if not names or ",".join(names) != hosts:
        raise UserError(f"host list {hosts!r} is not one: expected a form like node[01-04,07],gpu3")
    return [host for name in names for host in _expand_name(name, hosts)]


def _expand_name(name: str, hosts: str) -> list[str]:
    head, bracket, rest = name.partition("[")
    if not bracket:
        return [name]
    ranges, _, tail = rest.partition("]")
    tails = _expand_name(tail, hosts)
    numbers: list[str] = []
    for part in ranges.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if not match or (match[2] and int(match[2]) < int(match[1])):
            raise UserError(f"host list {hosts!r}: {part!r} is not a range: expected 3 or 01-04")
        first, last = match[1], match[2] or match[1]
        # Zeros in front are part of the name: node[08-10] is node08, node09, node10.
        numbers += [f"{i:0{len(first)}d}" for i in range(int(first), int(last) + 1)]
    return [f"{head}{number}{tail}" for number in numbers for tail in tails]


def _host(environment: Mapping[str, str]) -> str:
    host = _text(environment, "MASTER_ADDR")
    if "[" in host or "," in host:
        try:
            remedy = f"name the first, {expand_hosts(host)[0]}"
        except UserError:  # no list of hosts
            remedy = "name one node"
        raise UserError(f"MASTER_ADDR is {host!r}, expected one node: {remedy}")
    return host


def _port(environment: Mapping[str, str]) -> int:
    port = _number(environment, "MASTER_PORT")
    if not 1 <= port <= 65535:
        raise UserError(f"MASTER_PORT is {port}, expected a port, 1 to 65535")
    return port


def _there(environment: Mapping[str, str], *names: str) -> str:
    """The first of the names that is in the environment, else the last."""
    return next((name for name in names if name in environment), names[-1])


def _text(environment: Mapping[str, str], name: str) -> str:
    if not environment.get(name):
        raise UserError(f"{name} is not set, though other variables of the launcher are: set it")
    return environment[name]


def _number(environment: Mapping[str, str], name: str) -> int:
    text = _text(environment, name)
    if not text.isdecimal():
        raise UserError(f"{name} is {text!r}, expected a whole number from 0 up")
    return int(text)
