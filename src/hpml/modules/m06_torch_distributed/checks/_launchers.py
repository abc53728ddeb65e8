"""The environments that torchrun and SLURM give to a process: recorded, with new names and numbers.

`_launcher_environments.json` holds recordings: each task's environment as torchrun (torch 2.13) and
srun (SLURM 22.05) set it, without irrelevant variables (PATH, umask, process ids). The expected
settings of each rank come not from the variables but from where the tasks ran: `hosts`, in the
order of the step, and `node_of_rank`. To replace the recordings, replace that file;
tests/cluster/test_recordings.py records again on a virtual cluster, and compares.
"""

import contextlib
import json
import os
import random
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RECORDINGS = Path(__file__).with_name("_launcher_environments.json")
HOST_NAMES = (
    "HOSTNAME",
    "MASTER_ADDR",
    "SLURMD_NODENAME",
    "SLURM_JOB_NODELIST",
    "SLURM_NODELIST",
    "SLURM_STEP_NODELIST",
    "SLURM_TOPOLOGY_ADDR",
)
JOB_IDS = ("SLURM_JOBID", "SLURM_JOB_ID")
# What torchrun sets and srun does not. A job script exports MASTER_ADDR and MASTER_PORT, too.
OF_TORCHRUN = re.compile(
    r"(LOCAL_|ROLE_)?RANK|GROUP_RANK|(LOCAL_|ROLE_|GROUP_)?WORLD_SIZE|TORCHELASTIC_\w+"
)
THREE_GPUS = {
    "CUDA_VISIBLE_DEVICES": "0,1,2",
    "SLURM_GPUS_ON_NODE": "3",
    "SLURM_STEP_GPUS": "0,1,2",
}
DEFAULT_PORT = 29500  # of torchrun, and of many scripts
LARGEST_JOB_ID = 67_043_328  # SLURM's default MaxJobId


@dataclass(frozen=True)
class Case:
    """One process's environment, and the settings that it should derive from it.

    `port` is None if the process must derive it from `job`.
    """

    name: str
    launcher: str  # "torchrun", "srun", or "none"
    environment: dict[str, str]
    gpus: int  # that this process can see
    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    node_rank: int
    master_address: str
    port: int | None
    device: str
    job: int | None


# As many as are less than 1000 apart: also of ports that are mixed well two are alike, if they are
# not made to differ
NEIGHBOURS = 1000


def neighbouring_jobs(seed: int) -> list[int]:
    """Ids of NEIGHBOURS jobs, one after the other; then of others, whose last digits are as large
    as digits get: where too many ports are made of an id, one of these is out of range."""
    rng = random.Random(seed)
    first = rng.randrange(1, 10)
    nines = [600_000 * rng.randrange(1, 100) - 1, 2**17 * rng.randrange(1, 500) - 1]
    return [*range(first, first + NEIGHBOURS), *nines]


def one_job(seed: int) -> dict[str, str]:
    """The environment of a job with one task, which meets nobody's port."""
    return next(case.environment for case in cases(seed) if case.name == "srun, one task")


def with_id(environment: Mapping[str, str], job: int) -> dict[str, str]:
    return {**environment, **dict.fromkeys(JOB_IDS, str(job))}


def cases(seed: int) -> list[Case]:
    """Every process of every recording, with new host names, job ids and ports.

    Beyond the recordings: jobs that differ only in their id, other forms of host list, and a
    process started without a launcher.
    """
    rng = random.Random(seed)
    recordings = json.loads(RECORDINGS.read_text(encoding="utf-8"))
    by_name = {recording["name"]: recording for recording in recordings}
    found = [case for recording in recordings for case in _play(recording, rng, _job(rng))]

    one_task = by_name["srun, one task"]
    first = rng.randrange(1, 10)
    for more in (0, 1):
        found += _play(one_task, rng, first + more)
    found += _play(one_task, rng, LARGEST_JOB_ID - rng.randrange(1000))

    racks = by_name["srun, six tasks in two racks"]
    for hosts, text in _host_lists(rng):
        found += _play(_on(racks, hosts, text), rng, _job(rng))
    four_nodes = by_name["srun, six tasks on four nodes"]
    hosts = ["gpu-a08", "gpu-a09", "gpu-a10", "login1"]
    found += _play(_on(four_nodes, hosts, "gpu-a[08-10],login1"), rng, _job(rng))

    name = "torchrun without GROUP_RANK"
    found += _play(_without(by_name["torchrun, one node"], "GROUP_RANK", name), rng, _job(rng))
    exported = by_name["srun, master exported by the job script"]
    for variable, other in (("MASTER_PORT", "MASTER_ADDR"), ("MASTER_ADDR", "MASTER_PORT")):
        name = f"srun, {other} alone exported by the job script"
        found += _play(_without(exported, variable, name), rng, _job(rng))
    few = by_name["srun, two nodes with four GPUs each"]
    found += _play(few | {"name": "srun, four ranks on each node and three GPUs", "gpus": 3}
                   | {"shared": few["shared"] | THREE_GPUS}, rng, _job(rng))  # fmt: skip
    script = by_name["batch script without srun"]
    meeting = {"MASTER_ADDR": script["hosts"][0], "MASTER_PORT": "1"}
    found += _play(script | {"shared": script["shared"] | meeting}, rng, _job(rng))

    nobody = {"name": "no launcher", "launcher": "none", "hosts": ["localhost"], "gpus": 1}
    nobody |= {
        "node_of_rank": [0],
        "shared": {"HOSTNAME": f"pc{rng.randrange(100)}"},
        "tasks": [{}],
    }
    return found + _play(nobody, rng, 0)


def srun_here(job: int, rank: int, world_size: int, per_node: int | None = None) -> dict[str, str]:
    """What srun sets for one of `world_size` tasks, `per_node` on each node: all names of a
    recording. Of several nodes no name leads anywhere here: ranks meet at MASTER_ADDR."""
    per_node = per_node or world_size
    nodes, (node, local_rank) = -(-world_size // per_node), divmod(rank, per_node)
    first, tasks = node * per_node, min(per_node, world_size - node * per_node)
    assert world_size == nodes * per_node  # so that one number says how many tasks a node has
    hosts = f"node[1-{nodes}]" if nodes > 1 else "localhost"
    own = f"node{node + 1}" if nodes > 1 else "localhost"
    each = f"{per_node}(x{nodes})" if nodes > 1 else str(per_node)
    recordings = json.loads(RECORDINGS.read_text(encoding="utf-8"))
    variables = next(each["shared"] for each in recordings if each["name"] == "srun, one task")
    lists = {name for name in variables if name.endswith("NODELIST")}
    return variables | {
        **dict.fromkeys(set(HOST_NAMES) & set(variables) - lists, own),
        **dict.fromkeys(lists, hosts),
        **dict.fromkeys(JOB_IDS, str(job)),
        **dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_NUM_TASKS"), str(world_size)),
        **dict.fromkeys(("SLURM_TASKS_PER_NODE", "SLURM_STEP_TASKS_PER_NODE"), each),
        **dict.fromkeys(
            ("SLURM_NNODES", "SLURM_JOB_NUM_NODES", "SLURM_STEP_NUM_NODES"), str(nodes)
        ),
        "SLURM_CPUS_ON_NODE": str(tasks),
        "SLURM_JOB_CPUS_PER_NODE": each,
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(local_rank),
        "SLURM_NODEID": str(node),
        "SLURM_GTIDS": ",".join(map(str, range(first, first + tasks))),
    }


def become_task_of_srun(variables: Mapping[str, str]) -> None:
    """Give this process, which has torchrun's variables, those of srun in their place."""
    for name in [name for name in os.environ if OF_TORCHRUN.fullmatch(name)]:
        del os.environ[name]
    os.environ |= variables


def another_job_came_first() -> socket.socket:
    """On this machine it has the port that PyTorch takes by default: as long as what is returned
    exists. On a machine without namespaces for ranks perhaps one really has it. Not where it is the
    port that was drawn for this job."""
    holding = socket.socket()
    if os.environ.get("MASTER_PORT") == str(DEFAULT_PORT):
        return holding
    with contextlib.suppress(OSError):
        holding.bind(("127.0.0.1", DEFAULT_PORT))
        holding.listen()
    return holding


def _job(rng: random.Random) -> int:
    return rng.randrange(10_000, 10_000_000)


def _host_lists(rng: random.Random) -> list[tuple[list[str], str]]:
    """Lists of three hosts, each with its text in SLURM's form."""
    n = rng.randrange(1, 5)
    return [
        ([f"x{n}", f"x{n + 1}", f"x{n + 2}"], f"x[{n}-{n + 2}]"),
        (["c9", "c10", "c11"], "c[9-11]"),
        ([f"a00{n}", f"b0{n}", f"b1{n}"], f"a00{n},b[0{n},1{n}]"),
        ([f"a{n}", f"a{n + 2}", "big-memory"], f"a[{n},{n + 2}],big-memory"),
        ([f"r1c0n{n:02}", f"r1c1n{n:02}", f"r1c2n{n:02}"], f"r1c[0-2]n[{n:02}]"),
        ([f"r1c1n{n:02}", f"r1c3n{n:02}", f"r1c4n{n:02}"], f"r1c[1,3-4]n[{n:02}]"),
        (["blue", "green", "red"], "blue,green,red"),
    ]


def _without(recording: dict[str, Any], variable: str, name: str) -> dict[str, Any]:
    """The recording, and not this variable."""
    shared = {key: value for key, value in recording["shared"].items() if key != variable}
    assert shared != recording["shared"]
    return recording | {"name": name, "shared": shared}


def _on(recording: dict[str, Any], hosts: list[str], text: str) -> dict[str, Any]:
    """The recording as it would have been on other hosts."""
    renamed = dict(zip(recording["hosts"], hosts, strict=True))
    lists = {key: text for key in recording["shared"] if key.endswith("NODELIST")}
    tasks = [{k: renamed.get(v, v) for k, v in task.items()} for task in recording["tasks"]]
    return recording | {
        "name": f"srun on {text}",
        "hosts": hosts,
        "shared": recording["shared"] | lists,
        "tasks": tasks,
    }


def _play(recording: dict[str, Any], rng: random.Random, job: int) -> list[Case]:
    launcher, nodes = recording["launcher"], recording["node_of_rank"]
    # A digit in the prefix, as in real names: a name's first number need not be the node number.
    prefix = f"{rng.choice('bdfhkp')}{rng.randrange(1, 100)}-"
    port = rng.randrange(20_000, 60_000)
    played = []
    for rank, task in enumerate(recording["tasks"]):
        environment = {
            name: _refresh(name, value, prefix, job, port)
            for name, value in sorted((recording["shared"] | task).items())
        }
        alone = launcher == "none"
        local_rank = nodes[:rank].count(nodes[rank])
        given = environment.get("MASTER_PORT")
        gpus = recording["gpus"]
        played.append(
            Case(
                name=recording["name"],
                launcher=launcher,
                environment=environment,
                gpus=gpus,
                rank=rank,
                world_size=len(nodes),
                local_rank=local_rank,
                local_world_size=nodes.count(nodes[rank]),
                node_rank=nodes[rank],
                master_address="localhost"
                if alone
                else environment.get("MASTER_ADDR", prefix + recording["hosts"][0]),
                port=0 if alone else int(given) if given else None,
                device=f"cuda:{local_rank % gpus}" if gpus else "cpu",
                job=job if launcher == "srun" and not given else None,
            )
        )
    return played


def _refresh(name: str, value: str, prefix: str, job: int, port: int) -> str:
    if name in JOB_IDS:
        return str(job)
    if name == "MASTER_PORT":
        return str(port)
    if name in HOST_NAMES and value != "localhost":
        # Within brackets there are only digits, commas and dashes: a letter starts a host.
        return re.sub(r"(?:^|(?<=,))(?=[a-z])", prefix, value)
    return value
