"""Exercise process_group: rank, meeting point and device from torchrun's or SLURM's environment."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist

from hpml.checks.compare import described
from hpml.checks.contract import Check, Claim, Problem, Run
from hpml.checks.kits.raised_here import in_words
from hpml.checks.kits.ready_made import ALL_ELSE, SCONTROL
from hpml.checks.nodes import per_node
from hpml.modules.m06_torch_distributed.checks._launchers import (
    Case,
    another_job_came_first,
    become_task_of_srun,
    cases,
    srun_here,
)
from hpml.ranks import mark

PLACE = ("rank", "world_size", "local_rank", "local_world_size", "node_rank")
KEYS = {name: int for name in PLACE} | {"master_address": str, "master_port": int, "device": str}
PORTS = range(1024, 32768)  # below it: root's; above it: Linux's ephemeral ports


def inputs(seed: int, world_size: int) -> list[dict[str, Any]]:
    """For each rank: its share of the environments, dealt out in turn, and its own number.

    `launched` is the environment to start from: srun's at odd world sizes, else the engine's, which
    is torchrun's.
    """
    rng = random.Random(seed + 1)
    planted = [[case.environment, case.gpus] for case in cases(seed)]
    job = rng.randrange(10_000, 10_000_000)
    return [
        {
            "planted": planted[rank::world_size],
            "number": rng.randrange(1, 10**9),
            "launched": srun_here(job, rank, world_size, per_node(world_size))
            if world_size % 2
            else None,
        }
        for rank in range(world_size)
    ]


def drive(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """`settings` of each environment, then a sum over the process group that `start` makes."""
    seen = []
    for environment, gpus in inputs["planted"]:
        try:
            seen.append(answer.settings(dict(environment), gpus))
        except NotImplementedError:
            raise
        except Exception as error:
            seen.append(in_words(error, answer))
        if isinstance(seen[-1], dict) and isinstance(seen[-1].get("device"), torch.device):
            seen[-1]["device"] = str(seen[-1]["device"])
    if inputs["launched"]:
        become_task_of_srun(inputs["launched"])
    mark("started as by srun" if inputs["launched"] else "started as by torchrun")
    _holding = another_job_came_first()
    try:
        mine = answer.start()
    except NotImplementedError:
        return {"seen": seen}  # `settings` can be judged before `start` is written
    total = torch.tensor(inputs["number"])
    dist.all_reduce(total)
    group = {"rank": dist.get_rank(), "world_size": dist.get_world_size(), "sum": int(total)}
    dist.destroy_process_group()
    return {"seen": seen, "started": mine, "group": group}


def expect(inputs: list[dict[str, Any]], world_size: int) -> dict[str, int]:
    """The sum of all ranks' numbers. Judges make the expected settings from the seed."""
    return {"sum": sum(item["number"] for item in inputs)}


def replies(run: Run, *launchers: str) -> Iterator[tuple[Case, Any, int]]:
    """(case, result of `settings`, rank of the run) for each case of these launchers."""
    for index, case in enumerate(cases(run.seed)):
        if case.launcher in launchers:
            rank = index % run.world_size
            value = run.values[rank]
            seen = value.get("seen") if isinstance(value, dict) else None
            at = index // run.world_size
            yield case, seen[at] if isinstance(seen, list) and at < len(seen) else None, rank


def unusable(case: Case, got: Any, keys: tuple[str, ...], hint: str) -> Problem | None:
    """A Problem if `got` lacks one of the keys, or has a value of the wrong type."""
    where = f"{case.name}, rank {case.rank}"
    if isinstance(got, str):
        hint = "not_allowed" if got.startswith("NotAllowed:") else hint
        return Problem(f"{where}: settings raised {got}", hint)
    if not isinstance(got, dict):
        return Problem(f"{where}: settings returned {described(got)}, not a dict", "keys")
    for key in keys:
        if key not in got:
            return Problem(f"{where}: {key!r} is missing from what settings returned", "keys")
        if type(got[key]) is not KEYS[key]:
            kind = KEYS[key].__name__
            return Problem(f"{where}: {key} is {described(got[key])}, not of type {kind}", "types")
    return None


def differing(
    case: Case, got: Mapping[str, Any], keys: tuple[str, ...], hint: str
) -> Problem | None:
    """A Problem for the first of the keys whose value differs from the case's."""
    for key in keys:
        expected = case.port if key == "master_port" else getattr(case, key)
        if got[key] != expected:
            message = f"{case.name}: rank {case.rank} has {key} {got[key]!r}"
            return Problem(message, hint, repr(expected))
    return None


def asked_of_itself(run: Run) -> bool:
    """Whether a rank's settings are the same in all environments, but for the device."""
    seen = [value.get("seen") if isinstance(value, dict) else None for value in run.values]
    return all(
        isinstance(found, list)
        and all(isinstance(one, dict) for one in found)
        and all(one.get(key) == found[0].get(key) for one in found for key in PLACE)
        for found in seen
    )


def given(run: Run, problem: Problem | None) -> Problem | None:
    """The problem, with another hint where the environment in the argument was not read at all."""
    return replace(problem, hint="given") if problem and asked_of_itself(run) else problem


def place_hint(case: Case, got: Mapping[str, Any], run: Run, rank: int, hint: str) -> str:
    """The hint for the misconception that a wrong rank or size suggests."""
    variables = case.environment
    local_rank = rank % per_node(run.world_size)
    live = {"rank": rank, "world_size": run.world_size, "local_rank": local_rank}
    if all(got[key] == value for key, value in live.items()):
        return "given"
    if case.rank != case.local_rank == got["rank"]:
        return "local_rank"
    if case.launcher == "torchrun" and str(got["world_size"]) == variables.get("SLURM_NTASKS"):
        return "launcher"
    if (got["rank"], got["world_size"]) == (case.rank, case.world_size):
        same_place = (got["local_rank"], got["node_rank"]) == (case.local_rank, case.node_rank)
        return "tasks_per_node" if same_place else "distribution"
    return hint


def judge_torchrun(run: Run) -> Problem | None:
    keys = (*PLACE, "master_address", "master_port")
    for case, got, rank in replies(run, "torchrun"):
        if problem := unusable(case, got, keys, "torchrun"):
            return problem
        hint = place_hint(case, got, run, rank, "torchrun")
        if problem := differing(case, got, keys, hint):
            return given(run, problem)
    return None


def judge_srun(run: Run) -> Problem | None:
    for case, got, rank in replies(run, "srun"):
        if problem := unusable(case, got, PLACE, "srun"):
            return problem
        if problem := differing(case, got, PLACE, place_hint(case, got, run, rank, "srun")):
            return given(run, problem)
    return None


def master_hint(case: Case, got: str) -> str:
    if case.port is not None:
        return "exported"
    if got == case.environment.get("SLURMD_NODENAME"):
        return "own_node"
    if "[" in got or "," in got:
        return "host_list"
    if got.replace("0", "") == case.master_address.replace("0", ""):
        return "zero_padding"
    first_of_job = case.environment["SLURM_JOB_NODELIST"].split("[")[0]
    if case.environment["SLURM_STEP_NODELIST"] != case.environment["SLURM_JOB_NODELIST"]:
        return "step" if got.startswith(first_of_job) else "host_list"
    return "host_list"


def judge_master(run: Run) -> Problem | None:
    for case, got, _ in replies(run, "srun"):
        if problem := unusable(case, got, ("master_address",), "host_list"):
            return problem
        if got["master_address"] != case.master_address:
            nodes = case.environment["SLURM_STEP_NODELIST"]
            problem = Problem(
                f"{case.name}, nodes {nodes}: rank {case.rank} looks for the master on "
                f"{got['master_address']!r}",
                master_hint(case, got["master_address"]),
                repr(case.master_address),
            )
            return given(run, problem)
    return None


def judge_port(run: Run) -> Problem | None:
    ports: dict[int, int] = {}
    ignored = None
    for case, got, _ in replies(run, "srun"):
        if problem := unusable(case, got, ("master_port",), "port"):
            return problem
        port = got["master_port"]
        if case.job is None:
            ignored = ignored or differing(case, got, ("master_port",), "exported")
            continue
        if port not in PORTS:
            message = f"job {case.job} meets on port {port}, which is not in 1024 to 32767"
            return given(run, Problem(message, "port_range"))
        if ports.setdefault(case.job, port) != port:
            message = f"ranks of one job look for each other on ports {ports[case.job]} and {port}"
            return Problem(message, "port_agreed")
    for one, other in combinations(sorted(ports), 2):
        if other - one < 1000 and ports[one] == ports[other]:
            problem = Problem(f"jobs {one} and {other} both meet on port {ports[one]}", "port")
            return given(run, problem)
    return given(run, ignored)


def judge_device(run: Run) -> Problem | None:
    for case, got, _ in replies(run, "torchrun", "srun", "none"):
        if problem := unusable(case, got, ("device",), "device"):
            return problem
        if got["device"] != case.device:
            gpus = f"{case.gpus} GPU{'s' * (case.gpus != 1)}"
            problem = Problem(
                f"{case.name}: local rank {case.local_rank}, which sees {gpus}, "
                f"takes {got['device']!r}",
                "device",
                repr(case.device),
            )
            return given(run, problem)
    return None


def same(value: Any, number: int) -> bool:
    """Whether a value that a rank sent back is this int."""
    return type(value) is int and value == number


def judge_start(run: Run) -> Problem | None:
    for rank, value in enumerate(run.values):
        group = value.get("group") if isinstance(value, dict) else None
        if not isinstance(group, dict):
            return Problem(f"rank {rank} is in no process group: start is not written", "start")
        became, size = group.get("rank"), group.get("world_size")
        if not same(became, rank) or not same(size, run.world_size):
            became, size = described(became), described(size)
            return Problem(
                f"in the group that start made, rank {rank} of {run.world_size} is rank {became} "
                f"of {size}",
                "group",
            )
        if not same(group.get("sum"), run.expected["sum"]):
            return Problem(f"rank {rank}: the sum over all ranks is wrong", "group")
        started = value.get("started")
        if not isinstance(started, dict):
            message = f"start returned {described(started)}, not the dict of settings"
            return Problem(message, "keys")
        if not same(started.get("rank"), rank) or not same(
            started.get("world_size"), run.world_size
        ):
            return Problem(f"rank {rank}: start returned settings of another process", "group")
    keys = (*PLACE, "master_address", "master_port")
    for case, got, _ in replies(run, "none"):
        hint = "batch" if "SLURM_JOB_ID" in case.environment else "alone"
        if problem := unusable(case, got, keys, hint):
            return problem
        if problem := differing(case, got, keys, hint):
            return given(run, problem)
    return None


HINTS = {
    "start": "Read the environment in one place, and in this order: has torchrun started me, has "
    "srun, or nobody? Print what a launcher really sets: `srun env | grep SLURM | sort`.",
    "given": "`settings` is asked about the environment in its argument. What os.environ says of "
    "this process is for `start` to pass on.",
    "keys": "Both functions return one dict with the eight keys that the docstring lists.",
    "types": "Environment variables are text. Convert what counts or numbers something with int(); "
    "addresses and devices stay str.",
    "torchrun": "torchrun sets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK (the "
    "node), MASTER_ADDR and MASTER_PORT: there is nothing to compute.",
    "local_rank": "The local rank starts from 0 on every node: with two nodes there are two local "
    "ranks 0, and both would take themselves for the one that writes. It picks the GPU. The rank "
    "in the world is another variable.",
    "launcher": "Under `srun torchrun`, SLURM counts one task per node and torchrun starts several "
    "ranks in it. Both sets of variables are there: the innermost launcher knows the ranks.",
    "srun": "SLURM numbers tasks in the step (SLURM_PROCID), on the node (SLURM_LOCALID) and nodes "
    "in the step (SLURM_NODEID). A MASTER_ADDR alone does not mean torchrun.",
    "tasks_per_node": "SLURM_STEP_TASKS_PER_NODE has one number per node, in run-length form: "
    "'2(x2),1' is 2, 2, 1. Nodes need not have equal shares, and SLURM_NTASKS_PER_NODE is what was "
    "asked for, not what was given.",
    "distribution": "Ranks need not fill one node after the other: under --distribution=cyclic, "
    "rank 1 is on the second node. Do not compute the node or the local rank from the rank; SLURM "
    "says both.",
    "host_list": "A node list is compressed: names are separated by commas outside brackets, and "
    "inside a bracket are numbers and ranges. The master is one host: the first name, with the "
    "first number in place of each of its brackets. In a cluster's shell, `scontrol show hostnames "
    "LIST` prints all of them.",
    "own_node": "That is the node on which this rank runs, and ranks on other nodes name another. "
    "All must look in one place: on the first host of the step, wherever they run themselves.",
    "zero_padding": "n[08-10] begins with n08. As an int, 08 is 8, and there is no host n8: keep "
    "the number as text.",
    "step": "A step can run on some of the job's nodes only. Rank 0 is on the first node of the "
    "step, and the job's list may begin with a node where nobody listens.",
    "exported": "A job script that exports MASTER_ADDR or MASTER_PORT has its reason, such as "
    "another network. What is set wins over what would be derived.",
    "port": "Two jobs can share a node. If both come to one port, the second cannot start, or "
    "worse, joins the first. The job id is known to all ranks of a job and to no other job. How "
    "many ports do you make of it? Jobs less than 1000 apart must have different ones.",
    "port_range": "Job ids grow to 8 digits, ports end at 65535. Below 1024 they are root's, above "
    "32767 Linux lends them to outgoing connections. Fold the id into what is left.",
    "port_agreed": "All ranks of a job must come to the same port without having met: derive it "
    "from what they all know. A random or free port is known to one rank only. (hash() of a str "
    "also differs between processes.)",
    "device": "A process numbers the GPUs that it can see from 0, on every node anew: the rank in "
    "the world does not count here. With --gpus-per-task=1 each sees one, and it is cuda:0 "
    "whatever the local rank. Ranks that are more than their GPUs share them. Without a GPU the "
    "device is the CPU.",
    "alone": "Without a launcher there is one process: rank 0 of 1, master 'localhost', port 0, "
    "which lets the kernel choose.",
    "batch": "A batch script has SLURM variables too, with SLURM_NTASKS for the steps to come, but "
    "it is one process. Only a task that srun started has SLURM_STEP_ID.",
    "group": "What does `start` pass to init_process_group, and what does it return? All ranks "
    "must give the same address, the same port and the same world size, and each its own rank in "
    "the world: what `settings` finds in os.environ.",
    "raised": "Start from the exception. A variable is missing, or env:// expects one: srun sets "
    "no RANK and no WORLD_SIZE, not even where MASTER_ADDR is set, and init_process_group can be "
    "given rank and world_size instead. An address is in use: two processes take themselves for "
    "rank 0. Which number has each passed on as its rank?",
    "hang": "Every rank calls init_process_group, which returns when all have: the others wait "
    "without end for one that never comes. Which way does that one take through `start`?",
}

CHECK = Check(
    id="process_group",
    title="Rank, meeting point and device, from torchrun or SLURM",
    claims=(
        Claim("torchrun's variables place every rank", 2, judge_torchrun),
        Claim("srun's variables place every rank, however tasks are spread", 3, judge_srun),
        Claim("the master is the first host of the step", 2, judge_master),
        Claim("the port comes from the job id, so that two jobs do not meet", 1, judge_port),
        Claim("each rank takes a device that it can see", 1, judge_device),
        Claim("the ranks meet, and a process alone is a group of one", 1, judge_start),
    ),
    hints=HINTS,
    inputs=inputs,
    drive=drive,
    expect=expect,
    process_group=False,
    link="10gbit",  # on which the ranks do not meet at "localhost"
    names=("settings", "start"),
    to_write="the settings of both launchers, and the start",
    allowed=ALL_ELSE,
    not_allowed=(SCONTROL,),
)
