"""The job scripts, handed to a real SLURM as they stand, do what they promise."""

import csv
import re
import shutil

import pytest

from hpml.allreduce import ALGORITHMS
from hpml.paths import CHECKOUT
from hpml.ranks import flavour
from hpml.trace.profiler.read import read
from hpml.trace.profiler.shares import shares
from hpml.train import checkpoint
from hpml.train.history import read_history

from ..waiting import until

pytestmark = [
    pytest.mark.measures,  # a daemon
    pytest.mark.xdist_group("cluster"),
]

# Those of modules: what grades has a test of its own.
SCRIPTS = sorted((CHECKOUT / "slurm").glob("[0-9]*.slurm"))
GPU = [script.name for script in SCRIPTS if "--gpus-per-node" in script.read_text()]
# What comes after the script is for the training: an epoch of two steps, and threads for two cores.
SHORT = "--epochs 1 --samples 400 --test-samples 100 --batch-size 25 --widths 8,8,8 --threads 1"
SHORT_VIT = SHORT.partition("--widths")[0] + "--size tiny --threads 1"


def ended(cluster, *words: str) -> tuple[str, str]:
    """Submit a job, wait for its end; its number and its log. It must have been COMPLETED."""
    job = cluster.submit(*words)
    return job, log_of(cluster, job)


def log_of(cluster, job: str) -> str:
    """Wait for the end of a job; its log. It must have been COMPLETED."""
    state, log = cluster.end_of(job), cluster.log_of(job)
    assert (state, cluster.job(job)["Restarts"]) == ("COMPLETED", "0"), log
    return log


def test_each_script_without_gpus_is_run_here():
    assert {script.name for script in SCRIPTS} - set(GPU) == {
        "00_hello.slurm",
        "01_allreduce.slurm",
        "02_binding.slurm",
        "02_roofline.slurm",
        "02_staging.slurm",
        "03_profile.slurm",
        "04_eager_compiled.slurm",
        "05_horovodrun.slurm",
        "05_mpirun.slurm",
        "05_srun.slurm",
        "06_one_node.slurm",
        "06_several_nodes.slurm",
        "07_fsdp.slurm",
        "07_pipeline.slurm",
        "07_tensor.slurm",
        "08_scaling.slurm",
    }


@pytest.mark.parametrize("nodes", [1, 4])
def test_hello_prints_where_each_rank_runs_and_their_sum(cluster, nodes):
    asked = [f"--nodes={nodes}"] if nodes != 1 else []
    _, log = ended(cluster, *asked, "slurm/00_hello.slurm")
    where = dict(re.findall(r"^rank (\d+) of \d+ on (\w+): \d+ core", log, re.M))
    ranks = 2 * nodes
    assert sorted(where, key=int) == [str(rank) for rank in range(ranks)]
    assert len(set(where.values())) == nodes
    total = ranks * (ranks + 1) // 2
    assert f"all_reduce over {ranks} rank(s): 1 + ... = {total}, as it should be" in log


@pytest.mark.parametrize(
    ("script", "asked", "ranks"),
    [
        ("06_one_node", [], 4),
        ("06_several_nodes", ["--nodes=1"], 2),
        ("06_several_nodes", [], 4),
    ],
)
def test_training_leaves_its_history_and_a_checkpoint(cluster, script, asked, ranks):
    job, log = ended(cluster, *asked, f"slurm/{script}.slurm", *SHORT.split())
    assert f"{ranks} ranks × 1 thread, cpu" in log
    left = cluster.project() / "build/jobs" / job
    history = read_history(left / "history.json")
    assert (history.world_size, history.stopped, len(history.epochs)) == (ranks, False, 1)
    assert (left / "checkpoint.pt").exists()


def test_a_profiled_run_leaves_traces_of_two_nodes_in_one_folder_and_nothing_on_the_nodes(cluster):
    job, log = ended(cluster, "slurm/03_profile.slurm", *SHORT.split(), "--samples", "800")
    assert "4 ranks × 1 thread, cpu" in log
    left = cluster.project() / "build/jobs" / job
    assert read_history(left / "history.json").world_size == 4
    assert sorted(path.name for path in (left / "traces").glob("*.pt.trace.json.gz")) == [
        "rank0.pt.trace.json.gz",
        "rank3.pt.trace.json.gz",
    ]
    for rank in (0, 3):
        trace = read(left / "traces" / f"rank{rank}.pt.trace.json.gz")
        assert (trace.rank, trace.world_size, len(trace.steps)) == (rank, 4, 3)
        assert shares(trace).step > 0
    for node in ("n1", "n2"):
        there = cluster.hpml("cluster", "exec", node, "--", "ls", "/tmp")
        assert "hpml-profile-" not in there.stdout


@pytest.mark.parametrize(
    ("script", "copies"), [("07_fsdp", 4), ("07_tensor", 2), ("07_pipeline", 2)]
)
def test_a_transformer_that_ranks_share_leaves_its_history_and_a_sharded_checkpoint(
    cluster, script, copies
):
    job, log = ended(cluster, f"slurm/{script}.slurm", *SHORT_VIT.split())
    assert "4 ranks × 1 thread, cpu" in log
    left = cluster.project() / "build/jobs" / job
    history = read_history(left / "history.json")
    assert (history.world_size, history.stopped, len(history.epochs)) == (4, False, 1)
    saved = checkpoint.load(left)
    assert (left / saved["shards"] / ".metadata").is_file()
    assert saved["run"]["step"] == 25 * copies


def test_ranks_that_are_dealt_out_to_nodes_are_stages_on_different_nodes(cluster):
    """As 07_pipeline.slurm asks for them: ranks 0 and 1 are the stages of one copy."""
    (asked,) = re.findall(
        r"^#SBATCH (--distribution=\S+)", (CHECKOUT / "slurm/07_pipeline.slurm").read_text(), re.M
    )
    _, log = ended(cluster, "--nodes=2", asked, "slurm/00_hello.slurm")
    where = dict(re.findall(r"^rank (\d+) of \d+ on (\w+): \d+ core", log, re.M))
    assert where["0"] == where["2"] != where["1"] == where["3"]


@pytest.mark.parametrize(
    ("script", "asked", "ranks"),
    [
        ("05_horovodrun", ["--ntasks-per-node=2"], 2),
        ("05_horovodrun", ["--nodes=2", "--ntasks-per-node=1"], 2),
        ("05_mpirun", [], 4),
        ("05_srun", [], 4),
    ],
)
def test_horovod_trains_whoever_starts_its_ranks(cluster, request, script, asked, ranks):
    if why := flavour.missing("horovod"):
        pytest.skip(why)
    if script == "05_mpirun":
        request.getfixturevalue("horovod_over_mpi")
    job, log = ended(cluster, *asked, f"slurm/{script}.slurm", *SHORT.split())
    assert f"{ranks} ranks × 1 thread, cpu" in log
    history = read_history(cluster.project() / "build/jobs" / job / "history.json")
    assert (history.world_size, history.stopped, len(history.epochs)) == (ranks, False, 1)


@pytest.mark.parametrize(
    ("asked", "shape"),
    [([], "4 ranks, 1 on each node"), (["--nodes=2", "--ntasks-per-node=2"], "2 on each node")],
)
def test_the_study_of_all_reduce_leaves_a_table_and_a_figure(cluster, asked, shape):
    short = ["--sizes", "4,10000", "--repeats", "2"]
    job, log = ended(cluster, *asked, "slurm/01_allreduce.slurm", *short)
    assert shape in log
    assert "between nodes: α = " in log
    assert ("within a node: α = " in log) == bool(asked)
    left = cluster.project() / "build/jobs" / job
    with (left / "all_reduce.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["algorithm"], row["bytes"]) for row in rows] == [
        (name, nbytes) for nbytes in ("4", "10000") for name in (*ALGORITHMS, "gloo")
    ]
    assert (left / "all_reduce.png").read_bytes().startswith(b"\x89PNG")


def test_eager_against_compiled_leaves_a_table_and_a_figure(cluster):
    # aot_eager captures the graph and compiles nothing, which takes a minute on two busy cores.
    short = "--batches 2,4 --widths 8 --rounds 1 --backend aot_eager --threads 1"
    job, log = ended(cluster, "slurm/04_eager_compiled.slurm", *short.split())
    assert re.findall(r"^batch +(\d+), (\S+) .* times eager; first step", log, re.M) == [
        (batch, way) for batch in ("2", "4") for way in ("eager", "torch.compile")
    ]
    left = cluster.project() / "build/jobs" / job
    with (left / "eager_compiled.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["batch"], row["way"]) for row in rows] == [
        (batch, way) for batch in ("2", "4") for way in ("eager", "torch.compile")
    ]
    assert (left / "eager_compiled.png").read_bytes().startswith(b"\x89PNG")


def test_a_scaling_study_is_one_submission_and_its_large_sizes_are_predicted(cluster):
    # Four nodes share this machine's cores, so the ranks wait in place of computing.
    short = "--wait 0.001 --batch 4 --steps 2 --widths 8,8,8 --threads 1"
    first, log = ended(cluster, "--ntasks-per-node=1", "slurm/08_scaling.slurm", *short.split())
    assert "1 rank on 1 node: " in log
    others = re.findall(
        r"^job (\d+) has (\d) nodes, and begins when job (\d+) has ended$", log, re.M
    )
    assert [(nodes, before) for _, nodes, before in others] == [("2", first), ("4", others[0][0])]
    logs = [log_of(cluster, job) for job, _, _ in others]
    assert "2 ranks on 2 nodes: " in logs[0]
    assert "4 ranks are predicted: " in logs[0]
    assert "4 ranks on 4 nodes: " in logs[1]
    assert "4 ranks were predicted: " in logs[1]
    left = cluster.project() / "build/jobs" / first
    with (left / "scaling.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["nodes"], row["ranks"], row["use"]) for row in rows] == [
        ("1", "1", "alone"),
        ("2", "2", "fitted"),
        ("4", "4", "predicted"),
    ]
    assert (left / "scaling.png").read_bytes().startswith(b"\x89PNG")


def test_no_larger_job_of_a_study_starts_where_one_fails(cluster):
    first = cluster.submit("--ntasks-per-node=1", "slurm/08_scaling.slurm", "2", "--batch", "none")
    left = ("squeue", "--noheader", "--name=scaling")
    until(lambda: not cluster.output(*left), "the end of the study")
    log = (cluster.project() / f"slurm-scaling-{first}.out").read_text()
    assert "--batch" in log
    (second,) = re.findall(r"^job (\d+) has 2 nodes", log, re.M)
    assert not (cluster.project() / f"slurm-scaling-{second}.out").exists()


@pytest.mark.parametrize("script", GPU)
def test_sbatch_accepts_a_gpu_script_once_the_site_says_that_there_are_none(
    cluster, script, tmp_path
):
    shutil.copytree(CHECKOUT / "slurm", tmp_path / "slurm")
    submit = 'source slurm/site.sh && submit --test-only "$@" 2>&1'
    words = ["bash", "-c", f"cd {tmp_path} && {submit}", "submit", f"slurm/{script}"]
    refused = cluster.run(*words)
    assert refused.returncode != 0
    assert "generic resource" in refused.stdout

    site = tmp_path / "slurm/site.sh"
    text, count = re.subn(r"(?m)^gpus_per_node= ", "gpus_per_node=0 ", site.read_text())
    site.write_text(text)
    assert count == 1
    (line,) = cluster.output(*words)
    one_process = script == "04_eager_compiled_gpu.slurm"
    one_node = ("05_horovodrun_gpu.slurm", "08_scaling_gpu.slurm")
    many = 1 if one_process or script in one_node else 2
    nodes = "n1" if many == 1 else r"n\[1-2\]"
    processors = 8 if one_process else 32 * many
    assert re.search(rf"to start at .* using {processors} processors on nodes {nodes}", line)
