"""`%%ranks --on slurm` on the virtual cluster: right, wrong, stuck, kept, cancelled, killed."""

import json
import re
import signal
import subprocess
import sys

import psutil
import pytest

from ..waiting import until

pytestmark = [pytest.mark.measures, pytest.mark.xdist_group("cluster")]

# A notebook without a browser: runs the cells that it is given, and prints a line for each
NOTEBOOK = """
import contextlib, io, json, sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "hpml")
for cell in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        done = shell.run_cell(cell)
    error = done.error_in_exec or done.error_before_exec
    print(json.dumps([out.getvalue(), error and str(error)]), flush=True)
"""
DIST = "import socket, torch, torch.distributed as dist\nones = torch.ones(2)\n"
SLEEPS = "%%ranks 2 --on slurm --live\nimport time\nprint('here', flush=True)\ntime.sleep(300)"


def notebook(*cells):
    return [sys.executable, "-c", NOTEBOOK, json.dumps(cells)]


def run(cluster, *cells, before=()):
    """What each cell printed, and the message of its exception, if any."""
    done = cluster.run(*before, *notebook(*cells), timeout=400)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def agents():
    found = psutil.process_iter(["cmdline"])
    return [p for p in found if "hpml.ranks.agent.agent" in " ".join(p.info["cmdline"] or ())]


def nothing_is_left(cluster):
    until(lambda: not cluster.output("squeue", "--noheader"), "the queue to be empty", 60)
    until(lambda: not agents(), "the agents to end", 30)


def test_cells_run_on_two_nodes_and_verdicts_are_those_of_ranks_here(cluster):
    head = "%%ranks 4 --on slurm --nodes 2 --evidence seen --out total\n" + DIST
    (first, error), (seen, _), *failed = run(
        cluster,
        head + "dist.all_reduce(ones)\ntotal = ones.sum().item()\nsocket.gethostname()",
        "print([[c.operation, c.issued, c.finished] for r in seen.ranks for c in r.calls], total)",
        "%%ranks 3 --on slurm\n" + DIST + "if rank != 1:\n    dist.all_reduce(ones)",
        "%%ranks 2 --on slurm\n" + DIST + "(dist.barrier if rank else dist.all_gather_object)()",
        "%%ranks 2 --on slurm\n1 / rank",
    )
    assert error is None
    assert first.splitlines()[0] == "4 tasks on 2 nodes: n1, n2"
    assert first.splitlines()[1:] == ["[0] 'n1'", "[1] 'n1'", "[2] 'n2'", "[3] 'n2'"]
    calls, totals = seen.rstrip().split("]] ")
    calls = json.loads(calls.replace("'", '"') + "]]")
    assert [operation for operation, _, _ in calls] == ["all_reduce"] * 4
    # On one clock: nobody is through before the last has come (to 5 ms, for clocks that are read
    # over a network)
    assert min(end for _, _, end in calls) > max(begin for _, begin, _ in calls) - 0.005
    assert totals == "[8.0, 8.0, 8.0, 8.0]"
    stuck, _, raised = [message for _, message in failed]
    assert stuck.startswith("ranks 0 and 2 wait in all_reduce (call 1, line 5 of the cell); rank 1")
    assert raised.startswith("rank 0 raised ZeroDivisionError: division by zero (line 2 of the")
    nothing_is_left(cluster)


def test_ranks_that_are_kept_stay_on_their_nodes(cluster):
    first, second, listed, other, _, after = run(
        cluster,
        "%%ranks 2 --on slurm --nodes 2 --keep\n" + DIST + "mine = socket.gethostname()",
        "%%ranks 2 --keep\ndist.all_reduce(ones)\nprint(mine, ones[0].item())",
        "%ranks",
        "%%ranks 2 --keep --nodes 1\nmine",
        "%ranks stop",
        "%ranks",
    )
    assert first == ["2 tasks on 2 nodes: n1, n2\n", None]
    assert second == ["[0] n1 2.0\n[1] n2 2.0\n", None]
    assert ", on slurm, started " in listed[0]
    assert "were started with --nodes 2" in other[1]
    assert after[0].startswith("No ranks are kept")
    nothing_is_left(cluster)


def test_in_an_allocation_the_ranks_are_a_step_of_it(cluster):
    cell = "%%ranks 2 --on slurm --nodes 2\nimport os\nos.environ['SLURM_JOB_ID']"
    there = "import os\nprint(os.environ['SLURM_JOB_ID'])"
    salloc = ["salloc", "--quiet", "--nodes=2", "--ntasks-per-node=1"]
    (job, _), (said, error) = run(cluster, there, cell, before=salloc)
    assert error is None
    assert said.splitlines()[1:] == [f"[0] '{job.strip()}'", f"[1] '{job.strip()}'"]
    nothing_is_left(cluster)


def begun(cluster, cell):
    """A notebook whose cell is under way."""
    return subprocess.Popen(
        notebook(cell),
        cwd=cluster.home,
        env={**cluster.environment(), **cluster.env()},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def running(cluster):
    return cluster.output("squeue", "--noheader", "--states=RUNNING", "--format=%i")


def test_a_job_that_is_cancelled_ends_the_cell_with_what_slurm_says(cluster):
    with begun(cluster, SLEEPS) as process:
        (job,) = until(lambda: running(cluster), "the step to start")
        until(lambda: len(agents()) >= 4, "agents and ranks")
        cluster.output("scancel", job)
        printed, _ = process.communicate(timeout=120)
    _, message = json.loads(printed)
    assert re.match(r"the (task of rank . on n1 is gone|job step ended): ", message)
    assert "CANCELLED" in message
    nothing_is_left(cluster)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_with_the_notebook_its_ranks_end(cluster, number):
    with begun(cluster, SLEEPS) as process:
        until(lambda: running(cluster), "the step to start")
        until(lambda: len(agents()) >= 4, "agents and ranks")
        process.send_signal(number)
        process.communicate(timeout=120)
    nothing_is_left(cluster)


def test_a_cell_that_waits_in_the_queue_says_so_and_leaves_it_with_the_notebook(cluster):
    with begun(cluster, "%%ranks 64 --on slurm --nodes 64\n1") as process:
        until(lambda: cluster.output("squeue", "--noheader"), "the job to be in the queue")
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    nothing_is_left(cluster)
