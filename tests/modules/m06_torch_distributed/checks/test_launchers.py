"""Launchers' environments: fresh in each run, and true to where the tasks ran."""

import itertools
import json
import os
import re
import subprocess

import pytest

from hpml.modules.m06_torch_distributed.checks import _launchers as launchers

SEEDS = range(5)


def every_case():
    return [case for seed in SEEDS for case in launchers.cases(seed)]


def test_ranks_of_a_recording_are_those_that_its_launcher_numbered():
    """The layout says where each rank ran; the variables that need no parsing must agree."""
    for recording in json.loads(launchers.RECORDINGS.read_text(encoding="utf-8")):
        nodes = recording["node_of_rank"]
        for rank, task in enumerate(recording["tasks"]):
            told = recording["shared"] | task
            names = {
                "torchrun": ("RANK", "WORLD_SIZE", "GROUP_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
                "srun": ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_NODEID", "SLURM_LOCALID"),
                "none": (),
            }[recording["launcher"]]
            node = nodes[rank]
            facts = rank, len(nodes), node, nodes[:rank].count(node), nodes.count(node)
            assert tuple(int(told[name]) for name in names) == facts[: len(names)]
            if recording["launcher"] == "srun":
                assert told["SLURMD_NODENAME"] == recording["hosts"][node]


def test_a_seed_gives_the_same_cases_and_two_seeds_no_host_or_job_in_common():
    assert launchers.cases(3) == launchers.cases(3)
    small = range(10 + 1)  # the ids of neighbouring jobs, which may meet
    one, other = ({case.job for case in launchers.cases(seed)} - {None, *small} for seed in (3, 4))
    assert len(one) > 10
    assert not one & other


def test_no_recorded_job_id_or_host_is_left():
    recorded = {r["hosts"][0] for r in json.loads(launchers.RECORDINGS.read_text("utf-8"))}
    for case in every_case():
        if case.launcher == "srun":
            assert case.master_address not in recorded
            assert re.match(r"[a-z]\d+-", case.master_address)


def test_there_are_uneven_nodes_cyclic_ranks_steps_and_jobs_side_by_side():
    srun = [case for case in launchers.cases(0) if case.launcher == "srun"]
    assert any("(x" in case.environment["SLURM_STEP_TASKS_PER_NODE"] for case in srun)
    assert any(case.local_world_size * 3 != case.world_size > 3 for case in srun)
    assert any(case.environment.get("SLURM_DISTRIBUTION") == "cyclic" for case in srun)
    assert any(
        case.environment["SLURM_STEP_NODELIST"] != case.environment["SLURM_JOB_NODELIST"]
        for case in srun
    )
    jobs = sorted({case.job for case in srun if case.job is not None})
    assert any(0 < b - a < 1000 for a, b in itertools.pairwise(jobs))


@pytest.mark.parametrize("seed", range(5))
def test_a_thousand_jobs_are_next_to_each_other_and_others_have_large_last_digits(seed):
    jobs = launchers.neighbouring_jobs(seed)
    near = jobs[: launchers.NEIGHBOURS]
    assert near == list(range(near[0], near[0] + 1000))
    assert max(jobs) <= launchers.LARGEST_JOB_ID
    for ports in (10_000, 20_000, 30_000, 40_000, 50_000, 60_000, 2**15, 2**16):
        assert ports - 1 in {job % ports for job in jobs[launchers.NEIGHBOURS :]}


def test_a_task_of_srun_here_has_all_names_of_the_recordings_and_their_meaning():
    recordings = json.loads(launchers.RECORDINGS.read_text(encoding="utf-8"))
    alone = next(each for each in recordings if each["name"] == "srun, one task")
    for world_size in (1, 3):
        for rank in range(world_size):
            task = launchers.srun_here(4711, rank, world_size)
            assert task.keys() == alone["shared"].keys()
            assert {task[name] for name in launchers.JOB_IDS} == {"4711"}
            assert {task["SLURM_PROCID"], task["SLURM_LOCALID"]} == {str(rank)}
            for name in ("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_TASKS_PER_NODE"):
                assert task[name] == str(world_size)
            nodes = [task[n] for n in task if n.endswith(("NODELIST", "NODENAME"))]
            assert set(nodes) == {"localhost"}
            if world_size == 1:
                changed = {name for name in task if task[name] != alone["shared"][name]}
                assert changed <= {*launchers.HOST_NAMES, *launchers.JOB_IDS}


def test_tasks_of_srun_here_are_on_several_nodes():
    """As the recordings have it of two nodes with four tasks each."""
    names = ("PROCID", "LOCALID", "NODEID", "GTIDS", "STEP_NUM_TASKS", "STEP_TASKS_PER_NODE")
    found = [launchers.srun_here(4711, rank, 4, per_node=2) for rank in range(4)]
    assert [[task[f"SLURM_{name}"] for name in names] for task in found] == [
        ["0", "0", "0", "0,1", "4", "2(x2)"],
        ["1", "1", "0", "0,1", "4", "2(x2)"],
        ["2", "0", "1", "2,3", "4", "2(x2)"],
        ["3", "1", "1", "2,3", "4", "2(x2)"],
    ]
    assert {task["SLURM_STEP_NODELIST"] for task in found} == {"node[1-2]"}
    assert [task["SLURMD_NODENAME"] for task in found] == ["node1", "node1", "node2", "node2"]


def test_a_task_of_srun_has_nothing_that_torchrun_alone_sets(monkeypatch):
    recordings = json.loads(launchers.RECORDINGS.read_text(encoding="utf-8"))
    torchrun = next(each for each in recordings if each["name"] == "torchrun, two nodes")
    monkeypatch.setattr(os, "environ", {**torchrun["shared"], **torchrun["tasks"][0]})
    launchers.become_task_of_srun({"SLURM_PROCID": "2"})
    assert os.environ.keys() == {
        *("MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS", "SLURM_PROCID"),
        "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    }


def test_scontrol_names_the_same_master(needs, tmp_path):
    """SLURM's own expansion of each node list, where SLURM is installed."""
    scontrol = needs("scontrol")
    (tmp_path / "slurm.conf").write_text("ClusterName=none\nSlurmctldHost=localhost\n")
    srun = {
        case.environment["SLURM_STEP_NODELIST"]: case.master_address
        for case in launchers.cases(1)
        if case.launcher == "srun" and "MASTER_ADDR" not in case.environment
    }
    for nodes, master in srun.items():
        said = subprocess.run(
            [scontrol, "show", "hostnames", nodes],
            env={"SLURM_CONF": str(tmp_path / "slurm.conf")},
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
        assert said.stdout.split()[0] == master


def test_recordings_name_no_machine():
    text = launchers.RECORDINGS.read_text(encoding="utf-8")
    assert not re.search(r"/tmp|/root|/work|root\b", text)
