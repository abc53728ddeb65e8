"""The cluster for real: brought up, used from the shell, broken, taken down. Takes root."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import psutil
import pytest

from hpml.cluster.subnet import interface
from hpml.network.veth import bucket
from hpml.paths import CHECKOUT

from ..waiting import until

pytestmark = [
    pytest.mark.measures,  # a daemon
    pytest.mark.xdist_group("cluster"),  # they share one, in one process of pytest's
]

NODES = ["n1", "n2", "n3", "n4"]


def submitted(cluster, *options: str, script: str) -> str:
    """The number of a job of this script; its log is job-NUMBER.out."""
    wrapped = ["--output=job-%j.out", *options, "--wrap", script]
    return cluster.output("sbatch", "--parsable", *wrapped)[0]


def runs(cluster, job: str) -> bool:
    return cluster.job(job)["JobState"] == "RUNNING"


def test_a_job_runs_on_four_nodes_with_names_and_addresses_of_their_own(cluster):
    lines = cluster.output("srun", "--nodes=4", "sh", "-c", "echo $(hostname) $(hostname -i)")
    names, addresses = zip(*(line.split() for line in lines), strict=True)
    assert sorted(names) == NODES
    assert len(set(addresses)) == 4
    seen = cluster.output("srun", "--nodes=4", "hostname", "-I")
    assert sorted(line.strip() for line in seen) == sorted(addresses)


def test_a_batch_job_starts_processes_on_all_of_its_nodes(cluster):
    job = submitted(cluster, "--nodes=4", "--ntasks-per-node=2", script="srun hostname")
    assert cluster.end_of(job) == "COMPLETED"
    hosts = (cluster.home / f"job-{job}.out").read_text().split()
    assert Counter(hosts) == dict.fromkeys(NODES, 2)


SCRIPTS = sorted((CHECKOUT / "slurm").glob("*.slurm"))


def refused(cluster, *options: str) -> list[Path]:
    """The job scripts that sbatch would not take as they stand."""
    taken = {
        script: cluster.run("sbatch", "--test-only", *options, str(script)).returncode == 0
        for script in SCRIPTS
    }
    return [script for script, well in taken.items() if not well]


def test_every_job_script_is_taken_as_it_stands_but_those_for_gpus(cluster):
    assert refused(cluster) == [script for script in SCRIPTS if script.stem.endswith("_gpu")]


def test_make_believe_gpus_are_given_out_and_scripts_for_gpus_are_taken(spare):
    assert spare.hpml("cluster", "up", "--nodes=2", "--gpus=4").returncode == 0
    assert refused(spare, "--nodes=1") == []
    seen = spare.output(
        *"srun --nodes=2 --ntasks-per-node=2 --gpus-per-task=1".split(),
        *("printenv", "CUDA_VISIBLE_DEVICES"),
    )
    assert sorted(seen) == ["0", "0", "1", "1"]
    words = "submit 06 --dry-run --job".split()
    assert (
        "after --, give the program --device cpu" in spare.hpml(*words, "several_nodes_gpu").stdout
    )
    assert "make-believe" not in spare.hpml(*words, "several_nodes").stdout


def test_every_node_has_a_tmp_and_shared_memory_of_its_own(cluster):
    script = "f=/tmp/mine.$SLURM_JOB_ID; test ! -e $f && hostname >$f; sleep 0.5; ls $f; cat $f"
    lines = cluster.output("srun", "--nodes=4", "sh", "-c", script)
    assert sorted(line for line in lines if "/" not in line) == NODES
    assert not list(Path("/tmp").glob("mine.*"))
    script = "touch /dev/shm/mine.$SLURM_JOB_ID; sleep 0.5; ls /dev/shm/mine.$SLURM_JOB_ID | wc -l"
    assert cluster.output("srun", "--nodes=2", "sh", "-c", script) == ["1", "1"]
    assert not list(Path("/dev/shm").glob("mine.*"))


def test_every_link_is_limited_by_the_kernel_on_both_ends(cluster):
    # tc counts bytes per second; one cable end is on the node, the other in the head's switch.
    script = (
        "import json; from pyroute2 import IPRoute\n"
        "with IPRoute() as netlink:\n"
        "    names = {i['index']: i.get_attr('IFLA_IFNAME') for i in netlink.get_links()}\n"
        "    print(json.dumps({names[q['index']]: q.get_attr('TCA_OPTIONS')"
        ".get_attr('TCA_TBF_PARMS')['rate'] for q in netlink.get_qdiscs()"
        " if q.get_attr('TCA_KIND') == 'tbf'}))\n"
    )
    rate = bucket(10**9).rate
    for place, expected in (("n3", {"eth0": rate}), ("head", dict.fromkeys(NODES, rate))):
        done = cluster.hpml("cluster", "exec", place, sys.executable, "-c", script)
        assert json.loads(done.stdout) == expected, done.stderr


@pytest.mark.parametrize(("kind", "rank"), [("pmi2", "PMI_RANK"), ("pmix", "PMIX_RANK")])
def test_srun_starts_mpi_processes_on_every_node(cluster, kind, rank):
    script = f"echo $(hostname) ${rank}"
    asked = ("--nodes=4", "--ntasks-per-node=2")
    lines = cluster.output("srun", f"--mpi={kind}", *asked, "sh", "-c", script)
    names, ranks = zip(*(line.split() for line in lines), strict=True)
    assert Counter(names) == dict.fromkeys(NODES, 2)
    assert sorted(ranks) == list("01234567")


def test_mpirun_in_a_job_starts_processes_on_every_node(cluster, needs):
    needs("mpirun")
    script = "mpirun sh -c 'echo $(hostname) $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE'"
    job = submitted(cluster, "--nodes=4", "--ntasks-per-node=2", script=script)
    assert cluster.end_of(job) == "COMPLETED"
    lines = (cluster.home / f"job-{job}.out").read_text().splitlines()
    expected = [f"{NODES[rank // 2]} {rank} of 8" for rank in range(8)]
    assert sorted(lines) == sorted(expected)


def test_jobs_that_ended_are_listed_without_a_database(cluster):
    assert "accounting storage is disabled" in cluster.run("sacct").stderr
    job = submitted(cluster, script="exit 3")
    assert cluster.end_of(job) == "FAILED"

    def listed():
        rows = cluster.output("sacct", "--completion", "--noheader", "--format=jobid,state")
        return [job, "FAILED"] in [row.split() for row in rows]

    until(listed, "the job to be listed")


def test_exec_enters_a_node_with_folder_options_and_exit_code(cluster):
    done = cluster.hpml("cluster", "exec", "n2", "sh", "-c", "hostname; pwd; exit 7")
    assert done.stdout.split() == ["n2", str(cluster.home)]
    assert done.returncode == 7
    done = cluster.hpml("cluster", "exec", "nosuchnode", "ls")
    assert done.returncode == 2
    assert done.stderr == "hpml: no node 'nosuchnode': there are n1, n2, n3, n4, head\n"


def test_logs_are_those_of_the_named_daemon(cluster):
    assert "slurmd version" in cluster.hpml("cluster", "logs", "n2").stdout
    assert "Running as primary controller" in cluster.hpml("cluster", "logs").stdout
    done = cluster.hpml("cluster", "logs", "nope")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "no log of 'nope': there are slurmctld, n1" in done.stderr


def test_a_second_up_changes_nothing_and_another_shape_is_refused(cluster):
    before = cluster.pid("head")
    done = cluster.hpml("cluster", "up")
    assert done.returncode == 0
    assert done.stdout.startswith("The cluster is up already: 4 nodes, 32 CPUs each")
    done = cluster.hpml("cluster", "up", "--nodes", "3")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "a cluster of --nodes 4 --cpus 32 --link 1gbit is up" in done.stderr
    assert cluster.pid("head") == before
    assert cluster.hpml("cluster", "status").returncode == 0


def test_env_is_what_a_shell_needs(cluster):
    script = f'eval "$({sys.executable} -m hpml cluster env)" && sinfo -h -o %D'
    done = subprocess.run(
        ["sh", "-c", script],
        env=cluster.environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "4\n", done.stderr


def traces(cluster) -> dict[str, object]:
    """What a cluster could leave on this machine."""
    path = str(cluster.home)
    processes = []
    for process in psutil.process_iter():
        try:
            words = [*process.cmdline(), process.environ().get("SLURM_CONF", "")]
        except psutil.Error:
            continue
        if any(path in word for word in words):
            processes.append(process.pid)
    return {
        "processes": processes,
        "mounts": sorted(Path("/proc/self/mounts").read_text().splitlines()),
        "interfaces": sorted(os.listdir("/sys/class/net")),
        "named namespaces": sorted(Path("/run").glob("netns/*")),
        "control groups": sorted(Path("/sys/fs/cgroup").glob("**/*slurm*")),
        "files": sorted(cluster.home.rglob("*")),
        "host name": os.uname().nodename,
    }


def test_down_leaves_nothing_of_a_cluster_with_a_running_job(spare):
    before = traces(spare)
    assert before["processes"] == []
    assert spare.hpml("cluster", "up", "--nodes", "2").returncode == 0
    job = submitted(spare, "--nodes=2", "--output=/dev/null", script="sleep 300")
    until(lambda: runs(spare, job), "the job to start")
    during = traces(spare)
    assert len(during["processes"]) >= 6
    assert interface(spare.folder) in during["interfaces"]
    assert spare.hpml("cluster", "down").stdout == "The cluster is down.\n"
    assert traces(spare) == before
    again = spare.hpml("cluster", "down")
    assert (again.returncode, again.stdout) == (0, "No cluster is up here.\n")


def test_status_and_submit_name_the_dead_daemon_and_the_remedy(spare):
    before = traces(spare)
    assert spare.hpml("cluster", "up", "--nodes", "2").returncode == 0
    remedy = "./hpml cluster down, then ./hpml cluster up"

    os.kill(spare.pid("n2.slurmd"), signal.SIGKILL)
    status = until(lambda: _failing(spare.hpml("cluster", "status")), "status to notice")
    assert status.splitlines()[-1] == f"✗ slurmd of n2 ended unexpectedly: {remedy}"

    os.kill(spare.pid("slurmctld"), signal.SIGKILL)
    both = f"slurmctld and slurmd of n2 ended unexpectedly: {remedy}"
    until(lambda: both in spare.hpml("cluster", "status").stdout, "status to notice")
    for words in (("submit", "00"), ("cluster", "up", "--nodes", "2")):
        done = spare.hpml(*words)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"hpml: {both}\n")
    assert spare.hpml("cluster", "down").returncode == 0
    assert traces(spare) == before


def _failing(done) -> str:
    return done.stdout if done.returncode == 1 else ""


def test_when_its_head_is_killed_the_kernel_takes_the_cluster_away(spare):
    before = traces(spare)
    assert spare.hpml("cluster", "up", "--nodes", "1").returncode == 0
    os.kill(spare.pid("head"), signal.SIGKILL)
    # Nobody has cleaned up yet: files are all that is left.
    until(lambda: {**traces(spare), "files": []} == {**before, "files": []}, "all to go")
    done = spare.hpml("cluster", "status")
    assert done.returncode == 1
    assert "the cluster has ended" in done.stdout
    assert spare.hpml("cluster", "down").returncode == 0
    assert traces(spare) == before


def test_a_cluster_whose_folder_is_removed_ends_itself(spare):
    before = traces(spare)
    assert spare.hpml("cluster", "up", "--nodes", "1").returncode == 0
    # As `git clean` would. SLURM may write while we remove.
    until(lambda: shutil.rmtree(spare.folder, ignore_errors=True) or traces(spare) == before, "it")


# An `up` that ends itself, as kill -9 would, in the function named first, once the file is there.
KILLED = """
import os, signal, sys, time
from hpml.cli import main
from hpml.cluster import lifecycle
from hpml.cluster.folder import folder

def killed(*_):
    while not (folder().path / sys.argv[2]).exists():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)

setattr(lifecycle, sys.argv[1], killed)
main(["cluster", "up", "--nodes", "2"])
"""


@pytest.mark.parametrize(
    ("function", "file"),
    [
        ("slurm_conf", "cluster.json"),
        ("_wait_until_ready", "processes/head"),
        ("_wait_until_ready", "processes/n1"),
    ],
)
def test_an_up_that_is_killed_half_way_leaves_nothing_behind_a_down(spare, function, file):
    before = traces(spare)
    up = subprocess.run(
        [sys.executable, "-c", KILLED, function, file],
        env=spare.environment(),
        cwd=spare.home,
        stdout=subprocess.DEVNULL,
        timeout=60,
    )
    assert up.returncode == -signal.SIGKILL
    done = spare.hpml("cluster", "up", "--nodes", "2")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "./hpml cluster down" in done.stderr
    assert spare.hpml("cluster", "down").stdout == "The cluster is down.\n"
    until(lambda: traces(spare) == before, "all to go")


def test_an_up_that_is_interrupted_takes_its_cluster_down_itself(spare):
    before = traces(spare)
    up = subprocess.Popen(
        [sys.executable, "-m", "hpml", "cluster", "up", "--nodes", "2"],
        env=spare.environment(),
        cwd=spare.home,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until((spare.folder / "processes/head").exists, "the head")
        up.send_signal(signal.SIGINT)
        assert up.communicate(timeout=60)[1] == "hpml: interrupted\n"
    finally:
        up.kill()
        up.wait()
    assert up.returncode == 130
    assert traces(spare) == before


def test_an_up_that_fails_names_the_reason_and_keeps_its_logs(spare):
    broken = (
        "from hpml.cli import main; from hpml.cluster import lifecycle\n"
        "lifecycle.cgroup_conf = lambda version: 'CgroupPlugin=nope\\n'\n"
        "main(['cluster', 'up', '--nodes', '1'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", broken],
        env=spare.environment(),
        cwd=spare.home,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "the cluster did not come up: n1.slurmd ended: " in done.stderr
    assert traces(spare)["processes"] == []
    assert "nope" in spare.hpml("cluster", "logs", "n1").stdout
    assert spare.hpml("cluster", "up", "--nodes", "1").returncode == 0  # it is in nobody's way
