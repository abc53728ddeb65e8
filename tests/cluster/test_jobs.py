"""The course's job scripts, submitted as ./hpml submit does, to a real SLURM."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

from hpml.paths import CHECKOUT

pytestmark = [
    pytest.mark.measures,  # a daemon
    pytest.mark.xdist_group("cluster"),
]

SMALL = ["--epochs", "1", "--samples", "400", "--test-samples", "100", "--widths", "8,8,8"]


@pytest.fixture
def tidy():
    """Job scripts write into the project's folder: what is new there goes again."""
    before = {*CHECKOUT.glob("slurm-*.out"), *CHECKOUT.glob("build/jobs/*/*")}
    yield
    for path in {*CHECKOUT.glob("slurm-*.out"), *CHECKOUT.glob("build/jobs/*/*")} - before:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        if not any(path.parent.iterdir()):
            path.parent.rmdir()


def test_hello_is_submitted_and_followed_to_its_end(cluster, tidy):
    done = cluster.hpml("submit", "00", timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    conf = cluster.folder / "slurm.conf"
    lines = done.stdout.splitlines()
    assert lines[0] == f"SLURM_CONF={conf} sbatch slurm/00_hello.slurm"
    assert "all_reduce over 2 rank(s): 1 + ... = 3, as it should be" in lines
    assert re.fullmatch(r"job \d+: COMPLETED", lines[-1])


def test_training_runs_on_two_nodes_over_their_own_network(cluster, tidy):
    done = cluster.hpml("submit", "06", "--nodes", "2", "--", *SMALL, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("--cpus-per-task=1: ")
    assert "sbatch --nodes=2 --cpus-per-task=1 slurm/06_several_nodes.slurm --epochs 1" in lines[1]
    assert any(line.startswith("4 ranks × 1 thread, cpu") for line in lines)
    (job,) = re.findall(r"^job (\d+) is in the queue$", done.stdout, re.M)
    assert json.loads((CHECKOUT / "build/jobs" / job / "history.json").read_text())
    placed = cluster.output("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%N")
    assert placed == ["n[1-2]"]


def test_ranks_on_two_nodes_share_a_transformer(cluster, tidy):
    """Each matrix inside a node, the shards across: a checkpoint in parts."""
    options = ["--model", "vit", "--shard", "fsdp", "--tensor", "2", *SMALL[:-2]]
    done = cluster.hpml("submit", "06", "--nodes", "2", "--", *options, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert any(line.startswith("4 ranks × 1 thread, cpu") for line in done.stdout.splitlines())
    (job,) = re.findall(r"^job (\d+) is in the queue$", done.stdout, re.M)
    parts = (CHECKOUT / "build/jobs" / job / "shards-0").glob("*.distcp")
    assert {part.name.split("_")[2] for part in parts} == {"0", "1", "2", "3"}


def test_a_job_that_fails_is_exit_code_1_and_is_not_tried_again(cluster, tidy):
    done = cluster.hpml("submit", "06", "--nodes=2", "--", "--epochs", "none", timeout=240)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "--epochs" in done.stdout
    ended = re.fullmatch(r"job (\d+): FAILED \(NonZeroExitCode\)", done.stdout.splitlines()[-1])
    assert ended, done.stdout
    assert cluster.job(ended[1])["Restarts"] == "0"


def test_what_sbatch_refuses_is_one_line(cluster):
    done = cluster.hpml("submit", "00", "--partition=nope")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "partition" in done.stderr


def test_more_nodes_than_the_cluster_has_is_one_line(cluster):
    done = cluster.hpml("submit", "06", "--nodes", "5")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "5 nodes are wanted, and the cluster has 4" in done.stderr


def test_ctrl_c_stops_following_and_names_how_to_cancel(cluster, tidy):
    # Held back, so that there is something to wait for.
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "hpml", "submit", "00", "--begin=now+1hour"],
        env=cluster.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        lines = []
        while not any("PENDING" in line for line in lines):
            lines.append(process.stdout.readline())
            assert lines[-1], process.stderr.read()
        os.kill(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    (job,) = re.findall(r"job (\d+) is in the queue", "".join(lines))
    assert f"scancel {job} ends it" in output
    assert process.returncode == 130
    cluster.output("scancel", job)


def test_a_dry_run_needs_no_slurm(tmp_path):
    (tmp_path / "bash").symlink_to(shutil.which("bash"))
    done = subprocess.run(
        [sys.executable, "-m", "hpml", "submit", "06", "--nodes", "2", "--dry-run", "-t", "5"],
        env={
            "HPML_HOME": str(tmp_path),
            "PATH": str(tmp_path),
            "PYTHONPATH": str(CHECKOUT / "src"),
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    line = "sbatch --nodes=2 -t 5 slurm/06_several_nodes.slurm\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, line, "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["99"], "no module '99' in course.toml"),
        (["06", "--nodes", "0"], "--nodes 0: give 1 or more"),
        (["06", "--job", "nope"], "--job nope: module 06 has one_node"),
    ],
)
def test_wrong_usage_is_one_line(tmp_path, words, message):
    done = subprocess.run(
        [sys.executable, "-m", "hpml", "submit", *words, "--dry-run"],
        env={**os.environ, "HPML_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert message in done.stderr
