"""Exercise process_group: rank, meeting point and device from torchrun's or SLURM's environment."""

import os
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist

from hpml.checks.compare import described
from hpml.checks.contract import Check, Claim, Problem, Run
from hpml.checks.kits.raised_here import in_words
from hpml.checks.kits.ready_made import ALL_ELSE, SCONTROL
from hpml.checks.nodes import per_node
from hpml.modules.m06_torch_distributed.checks._launcher_hints import HINTS
from hpml.modules.m06_torch_distributed.checks._launchers import (
    DEFAULT_PORT,
    Case,
    another_job_came_first,
    become_task_of_srun,
    cases,
    neighbouring_jobs,
    one_job,
    srun_here,
    with_id,
)
from hpml.ranks import mark

PLACE = ("rank", "world_size", "local_rank", "local_world_size", "node_rank")
KEYS = {name: int for name in PLACE} | {"master_address": str, "master_port": int, "device": str}
PORTS = range(1024, 32768)  # below it: root's; above it: Linux's ephemeral ports


def inputs(seed: int, world_size: int) -> list[dict[str, Any]]:
    """For each rank: its share of the environments, dealt out in turn, and its own number; and its
    share of jobs that differ from `job` in their ids alone.

    `launched` is the environment to start from: srun's at odd world sizes, else the engine's, which
    is torchrun's. `ranks` has the variables of each rank that differ from those.
    """
    rng = random.Random(seed + 1)
    planted = [[case.environment, case.gpus] for case in cases(seed)]
    neighbours, one = neighbouring_jobs(seed), one_job(seed)
    job = rng.randrange(10_000, 10_000_000)
    on_node = per_node(world_size)
    ranks = [
        srun_here(job, rank, world_size, on_node)
        if world_size % 2
        else {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank % on_node),
            "GROUP_RANK": str(rank // on_node),
        }
        for rank in range(world_size)
    ]
    return [
        {
            "planted": planted[rank::world_size],
            "job": one,
            "ids": neighbours[rank::world_size],
            "number": rng.randrange(1, 10**9),
            "launched": ranks[rank] if world_size % 2 else None,
            "ranks": ranks,
        }
        for rank in range(world_size)
    ]


def drive(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """`settings` of each environment, then a sum over the process group that `start` makes."""

    def settings(environment: dict[str, str], gpus: int) -> Any:
        try:
            return in_text(answer.settings(environment, gpus))
        except NotImplementedError:
            raise
        except Exception as error:
            return in_words(error, answer)

    def in_text(found: Any) -> Any:
        if isinstance(found, dict) and isinstance(found.get("device"), torch.device):
            found["device"] = str(found["device"])
        return found

    seen = [settings(dict(environment), gpus) for environment, gpus in inputs["planted"]]
    found = [settings(with_id(inputs["job"], job), 0) for job in inputs["ids"]]
    ports = [one.get("master_port") if isinstance(one, dict) else None for one in found]
    if inputs["launched"]:
        become_task_of_srun(inputs["launched"])
    mark("started as by srun" if inputs["launched"] else "started as by torchrun")
    own = settings(dict(os.environ), torch.cuda.device_count())
    everyones = [settings({**os.environ, **each}, 0) for each in inputs["ranks"]]
    if why := cannot_meet(everyones, *map(os.environ.get, ("MASTER_ADDR", "MASTER_PORT"))):
        return {"seen": seen, "ports": ports, "apart": why}  # `start` would only wait
    _holding = another_job_came_first()
    try:
        mine = in_text(answer.start())
    except NotImplementedError:
        return {"seen": seen, "ports": ports}  # to be judged before `start` is written
    total = torch.tensor(inputs["number"])
    dist.all_reduce(total)
    group = {"rank": dist.get_rank(), "world_size": dist.get_world_size(), "sum": int(total)}
    dist.destroy_process_group()
    return {"seen": seen, "ports": ports, "own": own, "started": mine, "group": group}


def cannot_meet(everyones: Sequence[Any], address: str | None, port: str | None) -> str:
    """Which rank, of those with these settings, the others would wait for; "" if for none.

    They meet at this address; another job has DEFAULT_PORT, unless it is this `port`. All ranks
    come to the same result.
    """
    for rank, found in enumerate(everyones):
        right = {"rank": rank, "world_size": len(everyones), "master_address": address}
        for key, value in right.items() if isinstance(found, dict) else ():
            if type(found.get(key)) is type(value) and found[key] != value:
                return f"rank {rank} has {key} {found[key]!r}"
        taken = port != str(DEFAULT_PORT)
        if taken and isinstance(found, dict) and found.get("master_port") == DEFAULT_PORT:
            return f"rank {rank} has port {DEFAULT_PORT}, where another job is"
    return ""


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


def launcher_hint(case: Case) -> str:
    """The hint on what this launcher sets, or on a process that none started."""
    if case.launcher != "none":
        return case.launcher
    return "batch" if "SLURM_JOB_ID" in case.environment else "alone"


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
    if "MASTER_ADDR" in case.environment:
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
    return given(run, ports_of_neighbours(run) or ignored)


def ports_of_neighbours(run: Run) -> Problem | None:
    """Whether a port is out of range, or two jobs have one that are less than 1000 apart."""
    met: dict[int, int] = {}  # port: the last job that had it
    for place, job in enumerate(neighbouring_jobs(run.seed)):
        value = run.values[place % run.world_size]
        ports = value.get("ports") if isinstance(value, dict) else None
        at = place // run.world_size
        port = ports[at] if isinstance(ports, list) and at < len(ports) else None
        if type(port) is not int:
            return Problem(f"job {job} meets on port {described(port)}, not of type int", "types")
        if port not in PORTS:
            message = f"job {job} meets on port {port}, which is not in 1024 to 32767"
            return Problem(message, "port_range")
        if job - met.get(port, -1000) < 1000:
            return Problem(f"jobs {met[port]} and {job} both meet on port {port}", "port")
        met[port] = job
    return None


def judge_device(run: Run) -> Problem | None:
    for case, got, _ in replies(run, "torchrun", "srun", "none"):
        # A variable that is missing is no matter of the device
        missing = isinstance(got, str) and got.startswith("KeyError")
        hint = launcher_hint(case) if missing else "device"
        if problem := unusable(case, got, ("device",), hint):
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
        if isinstance(value, dict) and (why := value.get("apart")):
            problem = Problem(f"the ranks cannot meet: {why}", "group")
            above = (judge_torchrun, judge_srun, judge_master, judge_port)
            return next((found for judge in above if (found := judge(run))), problem)
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
        own = value.get("own")
        for key in KEYS if isinstance(own, dict) else ():
            if key not in started:
                message = f"rank {rank}: {key!r} is missing from what start returned"
                return Problem(message, "keys")
            if started[key] != own.get(key):
                return Problem(
                    f"rank {rank}: start returned {key} {described(started[key])}, and settings of "
                    f"the same environment has {described(own.get(key))}",
                    "passed_on",
                )
    keys = (*PLACE, "master_address", "master_port")
    for case, got, _ in replies(run, "none"):
        hint = launcher_hint(case)
        if problem := unusable(case, got, keys, hint):
            return problem
        if problem := differing(case, got, keys, hint):
            return given(run, problem)
    return None


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
