"""The launcher environments that process_group is judged by are those that this SLURM gives."""

import json
import re
import sys

import pytest

from hpml.modules.m06_torch_distributed.checks._launchers import RECORDINGS

pytestmark = [
    pytest.mark.measures,  # a daemon
    pytest.mark.xdist_group("cluster"),
]

COMMITTED = {
    recording["name"]: recording
    for recording in json.loads(RECORDINGS.read_text(encoding="utf-8"))
    if recording["launcher"] != "torchrun"
}
# Each task leaves its environment in a file of its own: they are too long for lines of one log.
RECORD = (
    "import json, os, sys; e = dict(os.environ); "
    "json.dump(e, open(f'{sys.argv[1]}.{e[\"SLURM_PROCID\"]}', 'w'))"
)
# What belongs to the cluster, the user and the moment, not to a task's place among the others.
OF_THE_PLACE = re.compile(
    "HOSTNAME|MASTER_.*|SLURM_(CLUSTER_NAME|JOB_?ID|JOB_(NAME|PARTITION|USER)|SRUN_COMM_.*"
    "|SUBMIT_.*|LAUNCH_NODE_IPADDR|STEP_LAUNCHER_PORT|STEP_?ID|JOB_CPUS_PER_NODE|CPUS_ON_NODE)"
)
FIVE = [
    "--nodelist=n[1-2,4]",
    *("--nodes=3", "--ntasks=5", "--ntasks-per-node=2"),
]
NODES_OF_FIVE = ["n1", "n2", "n4"]


def recorded(cluster, asked: list[str], step: list[str] | None) -> list[dict[str, str]]:
    """Each task's environment: of srun with `asked`, or of that `step` in a batch job."""
    place = cluster.project() / "recorded"
    place.mkdir(exist_ok=True)
    for old in place.iterdir():
        old.unlink()
    record = place / "record.py"
    record.write_text(RECORD)
    task = [sys.executable, str(record), str(place / "task")]
    if step is None:
        cluster.output("srun", *asked, *task)
    else:
        wrapped = " ".join([*step, *task])
        options = ["--wait", f"--chdir={place}", "--output=log"]
        cluster.output("sbatch", *options, *asked, f"--wrap={wrapped}")
    files = sorted(place.glob("task.*"), key=lambda path: int(path.suffix[1:]))
    return [json.loads(path.read_text()) for path in files]


@pytest.mark.parametrize(
    ("name", "asked", "step", "hosts"),
    [
        ("srun, one task", ["--ntasks=1", "--nodelist=n1"], None, ["n1"]),
        ("sbatch and srun, five tasks on three nodes", FIVE, ["srun"], NODES_OF_FIVE),
        (
            "srun --distribution=cyclic, five tasks on three nodes",
            FIVE,
            ["srun", "--distribution=cyclic"],
            NODES_OF_FIVE,
        ),
        ("batch script without srun", FIVE, [], ["n1"]),
        (
            "srun, six tasks on four nodes",
            ["--nodes=4", "--ntasks=6"],
            None,
            ["n1", "n2", "n3", "n4"],
        ),
        (
            "srun on two of the job's four nodes",
            ["--nodes=4", "--exclusive"],
            ["srun", "--nodelist=n3,n4", "--nodes=2", "--ntasks=3"],
            ["n3", "n4"],
        ),
    ],
)
def test_a_recording_is_what_slurm_sets_for_the_tasks(cluster, name, asked, step, hosts):
    committed = COMMITTED[name]
    renamed = dict(zip(committed["hosts"], hosts, strict=True))
    tasks = recorded(cluster, asked, step)
    assert len(tasks) == len(committed["tasks"])
    for task, own in zip(tasks, committed["tasks"], strict=True):
        for key, value in (committed["shared"] | own).items():
            if OF_THE_PLACE.fullmatch(key):
                assert key in task, key
            elif key.endswith("NODELIST") and renamed.keys() != set(hosts):
                continue  # of hosts with other names: below
            else:
                assert task.get(key) == renamed.get(value, value), key


@pytest.mark.parametrize("name", COMMITTED)
def test_a_recorded_host_list_is_how_slurm_abbreviates_those_hosts(cluster, name):
    shared = COMMITTED[name]["shared"]
    for key in ("SLURM_JOB_NODELIST", "SLURM_STEP_NODELIST"):
        if key in shared:
            hosts = cluster.output("scontrol", "show", "hostnames", shared[key])
            assert set(COMMITTED[name]["hosts"]) <= set(hosts)
            listed = cluster.output("scontrol", "show", "hostlistsorted", ",".join(hosts))
            assert listed == [shared[key]]
    if "SLURM_STEP_NODELIST" in shared:
        assert hosts == COMMITTED[name]["hosts"]
