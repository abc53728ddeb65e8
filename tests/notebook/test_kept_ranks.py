"""Ranks that live on between the cells of a notebook, in a real IPython shell."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from IPython.core.interactiveshell import InteractiveShell

from hpml.notebook.kept_ranks import GONE, STAY
from hpml.ranks import flavour
from hpml.ranks.parent import warm

from ..waiting import until

WHY = flavour.missing("horovod")
DIST = "import torch, torch.distributed as dist\n"
LIMIT = 20.0  # seconds for a process to be gone


def gone(pids, limit=LIMIT):
    """Whether all these processes end within the limit."""
    deadline = time.monotonic() + limit
    while any(map(runs, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not any(map(runs, pids))


def runs(pid):
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def test_the_next_cell_finds_variables_process_group_and_processes(run, shell):
    run(
        f"%%ranks 2 --keep --out pid\n{DIST}import os\n"
        "x = torch.ones(3) * (rank + 1)\npid = os.getpid()"
    )
    first = shell.user_ns["pid"]
    out, error = run(
        "%%ranks 2 --keep --out pid\ndist.all_reduce(x)\npid = os.getpid()\nx.tolist()"
    )
    assert error is None
    assert out == "[0] [3.0, 3.0, 3.0]\n[1] [3.0, 3.0, 3.0]\n"
    assert shell.user_ns["pid"] == first
    assert "x" not in shell.user_ns


def test_the_number_of_ranks_may_be_left_out_where_they_are_there(run):
    run("%%ranks 2 --keep\nx = rank")
    assert run("%%ranks --keep\nx") == ("[0] 0\n[1] 1\n", None)
    _, error = run("%%ranks --keep other\nx")
    assert "required: world_size" in str(error)
    _, error = run("%%ranks --keep 4\nx")
    assert "give the world size first: %%ranks 4 --keep" in str(error)


def test_a_model_made_in_one_cell_is_trained_in_the_next(run):
    run(
        f"%%ranks 2 --keep\n{DIST}"
        "from torch.nn.parallel import DistributedDataParallel\n"
        "torch.manual_seed(0)\n"
        "model = DistributedDataParallel(torch.nn.Linear(4, 1))\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
    )
    step = (
        "%%ranks 2 --keep --out weight --evidence seen\n"
        "optimizer.zero_grad()\n"
        "model(torch.full((8, 4), rank + 1.0)).mean().backward()\n"
        "optimizer.step()\n"
        "weight = model.module.weight.detach().clone()"
    )
    weights = []
    for _ in range(2):
        _, error = run(step)
        assert error is None
        one, other = InteractiveShell.instance().user_ns["weight"]
        assert one.equal(other)
        weights.append(one)
    assert (weights[0] - weights[1]).allclose(weights[0].new_full((1, 4), 0.15))


def test_two_names_are_two_groups(run):
    run("%%ranks 2 --keep a\nx = 10 + rank")
    run("%%ranks 1 --keep b\nx = 20 + rank")
    assert run("%%ranks 2 --keep a\nx")[0] == "[0] 10\n[1] 11\n"
    assert run("%%ranks 1 --keep b\nx")[0] == "[0] 20\n"


def test_cells_without_keep_have_ranks_of_their_own(run):
    run("%%ranks 1 --keep\nkept_x = 1")
    _, error = run("%%ranks 1\nkept_x")
    assert "NameError" in str(error)
    assert run("%%ranks 1 --keep\nkept_x")[0] == "[0] 1\n"


def test_evidence_has_the_calls_of_its_cell_alone(run, shell):
    run(f"%%ranks 2 --keep --evidence one\n{DIST}dist.barrier()\ndist.barrier()")
    run("%%ranks 2 --keep --evidence two\n\ndist.all_reduce(torch.ones(2))")
    one, two = shell.user_ns["one"].ranks[1], shell.user_ns["two"].ranks[1]
    assert [(c.index, c.operation, c.line) for c in one.calls] == [
        (1, "barrier", 3),
        (2, "barrier", 4),
    ]
    assert [(c.index, c.operation, c.line) for c in two.calls] == [(1, "all_reduce", 3)]
    assert 0 <= two.calls[0].issued <= two.calls[0].finished <= two.seconds


def test_a_call_may_be_begun_in_one_cell_and_waited_for_in_the_next(run, shell):
    run(
        f"%%ranks 2 --keep\n{DIST}x = torch.ones(2)\nwork = dist.isend(x, 1) if rank == 0 else None"
    )
    _, error = run(
        "%%ranks 2 --keep --evidence seen\nwork.wait() if rank == 0 else dist.recv(x, 0)"
    )
    assert error is None
    assert [len(each.calls) for each in shell.user_ns["seen"].ranks] == [0, 1]
    _, error = run("%%ranks 2 --keep\nif rank == 0: dist.recv(x, 1)")
    assert "rank 0 waits in recv from 1 (call 1, line 2 of the cell)" in str(error)


def test_what_is_sent_with_a_handle_that_nobody_waits_for_is_found_a_cell_later(run):
    run(
        f"%%ranks 2 --keep\n{DIST}x = torch.ones(2)\n"
        "if rank == 0: work = dist.all_reduce(x, async_op=True)"
    )
    _, error = run("%%ranks 2 --keep\nif rank == 0: work.wait()")
    assert "rank 0 waits in all_reduce (begun in an earlier cell)" in str(error)


def test_a_hang_is_told_with_the_line_of_the_second_cell_and_stops_the_ranks(run, shell):
    run(
        f"%%ranks 2 --keep --out pid\n{DIST}import os\npid = os.getpid()\n\n\n\n"
        "def meet():\n    dist.barrier()\nmeet()"
    )
    _, error = run("%%ranks 2 --keep\n\nif rank:\n    meet()")
    assert str(error) == (
        "rank 1 waits in barrier (call 1, line 4 of the cell); "
        f"rank 0 has made no call at all and returned\n{GONE}"
    )
    assert gone(shell.user_ns["pid"], 1.0)
    assert run("%ranks")[0].startswith("No ranks are kept")


def test_ranks_stay_after_an_exception_outside_of_a_collective(run):
    run(f"%%ranks 2 --keep\n{DIST}x = torch.ones(2)\ndist.all_reduce(x)")
    for cell in (
        "\n\n1 / 0",
        "if rank: 1 / 0",
        "x = = 1",
        "import threading\nlock = threading.Lock()",
    ):
        out = " --out lock" if "lock" in cell else ""
        _, error = run(f"%%ranks 2 --keep{out}\n{cell}")
        assert str(error).endswith(f"\n{STAY}"), cell
    assert "NameError" in str(run("%%ranks 2 --keep\nmissing")[1])
    assert (
        run("%%ranks 2 --keep\ndist.all_reduce(x)\nx.tolist()")[0]
        == "[0] [4.0, 4.0]\n[1] [4.0, 4.0]\n"
    )


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        ("if rank == 0: 1 / 0\ndist.barrier()", "rank 0 raised ZeroDivisionError"),
        (
            "if rank == 0: w = dist.all_reduce(x, async_op=True)\n1 / 0",
            "ranks 0 and 1 raised ZeroDivisionError",
        ),
        ("import sys\nsys.exit(3)", "ranks 0 and 1 left with exit code 3"),
        ("import os\nif rank: os._exit(4)", "rank 1 left with exit code 4"),
        ("dist.all_reduce(torch.ones(rank + 1))", "ranks bring different shapes to all_reduce"),
    ],
)
def test_else_they_are_stopped_and_a_sentence_says_so(run, shell, cell, sentence):
    run(f"%%ranks 2 --keep --out pid\n{DIST}import os\nx, pid = torch.ones(2), os.getpid()")
    _, error = run(f"%%ranks 2 --keep\n{cell}")
    assert str(error).startswith(sentence)
    assert str(error).endswith(f"\n{GONE}")
    assert gone(shell.user_ns["pid"], 1.0)
    assert run("%%ranks 2 --keep\n'x' in globals()")[0] == "[0] False\n[1] False\n"


def test_time_limit_and_endless_loop_are_those_of_the_cell(run):
    run("%%ranks 1 --keep\nimport time")
    _, error = run("%%ranks 1 --keep --timeout 0.5\n\nfor _ in range(1000):\n    time.sleep(0.01)")
    assert (
        str(error)
        == f"not done after 0.5 s: rank 0 was still at work at line 4 of the cell\n{GONE}"
    )
    run("%%ranks 1 --keep\nx = 0")
    _, error = run("%%ranks 1 --keep\n\nwhile x == 0:\n    pass")
    assert "rank 0 loops for ever at line" in str(error)


def test_a_rank_that_was_killed_between_two_cells_is_in_the_verdict(run, shell):
    run(f"%%ranks 2 --keep --out pid\n{DIST}import os\npid = os.getpid()")
    os.kill(shell.user_ns["pid"][1], signal.SIGKILL)
    assert gone(shell.user_ns["pid"][1:])
    assert "not all alive" in run("%ranks")[0]
    out, error = run("%%ranks 2 --keep\nprint('here')\ndist.barrier()")
    assert "here" not in out  # the others have not begun
    assert str(error).startswith("rank 1 was killed by SIGKILL")
    assert str(error).endswith(GONE)


def interrupted(run, cell, sign):
    """Run a cell, and interrupt it when each of the two ranks has made its file beside `sign`."""

    def interrupt():
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline and len(list(sign.parent.glob(f"{sign.name}*"))) < 2:
            time.sleep(0.02)
        time.sleep(0.1)  # for a rank that goes on to a collective
        os.kill(os.getpid(), signal.SIGINT)

    waiting = threading.Thread(target=interrupt)
    waiting.start()
    try:
        return run(cell.format(sign=f"open({str(sign)!r} + str(rank), 'x').close()"))
    finally:
        waiting.join()


def test_ranks_stay_after_an_interrupt_where_none_waits_for_another(run, tmp_path):
    run(f"%%ranks 2 --keep\n{DIST}import time\nx = rank")
    cell = "%%ranks 2 --keep\nx += 10\n{sign}\ntime.sleep(30)"
    out, error = interrupted(run, cell, tmp_path / "one")
    assert isinstance(error, KeyboardInterrupt)
    assert out.startswith(f"{STAY}\n")
    assert run("%%ranks 2 --keep\ndist.barrier()\nx")[0] == "[0] 10\n[1] 11\n"
    cell = "%%ranks 2 --keep\n{sign}\nif rank: time.sleep(30)\ndist.barrier()"
    out, error = interrupted(run, cell, tmp_path / "two")
    assert isinstance(error, KeyboardInterrupt)
    assert out.startswith(f"{GONE}\n")


def test_a_name_of_the_notebook_is_sent_again_where_it_has_changed_there(run, shell):
    run("steps, history = 1, []\ndef twice(n):\n    return 2 * n")
    run("%%ranks 1 --keep --out history\nhistory.append(twice(steps))")
    assert shell.user_ns["history"] == [[2]]  # by rank
    assert run("%%ranks 1 --keep\nhistory.append(steps)\nhistory")[0] == "[0] [2, 1]\n"
    run("steps = 5\ndef twice(n):\n    return n + n + 100")
    assert run("%%ranks 1 --keep\nhistory.append(twice(steps))\nhistory")[0] == "[0] [2, 1, 110]\n"


def test_a_name_that_did_not_arrive_is_sent_again(run, tmp_path, monkeypatch):
    (tmp_path / "beside.py").write_text("class Thing:\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    run("import beside\nthing, value = beside.Thing(), 1")
    assert run("%%ranks 1 --keep\nvalue")[0] == "[0] 1\n"
    run("value = 2")
    _, error = run("%%ranks 1 --keep\nthing, value")  # in ranks there is no such module
    assert str(error).startswith(
        "rank 0 raised NotReceived: ModuleNotFoundError: No module named 'beside'"
    )
    assert str(error).endswith(STAY)
    assert run("%%ranks 1 --keep\nvalue")[0] == "[0] 2\n"
    run("value = 3")
    _, error = run("%%ranks 1 --keep --time 5\nvalue")  # refused before anything was sent
    assert "--time goes with --on slurm" in str(error)
    assert run("%%ranks 1 --keep\nvalue")[0] == "[0] 3\n"
    run("value = [3]")
    assert "raised ZeroDivisionError" in str(run("%%ranks 1 --keep\nvalue.append(4)\n1 / 0")[1])
    assert run("%%ranks 1 --keep\nvalue")[0] == "[0] [3, 4]\n"


def test_values_that_share_tensors_are_sent_together(run):
    run(
        f"{DIST}model = torch.nn.Linear(2, 1, bias=False)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=1.0)"
    )
    step = (
        "%%ranks 1 --keep\nbefore = model.weight.tolist()\n"
        "model(model.weight.detach() * 0 + 1).sum().backward()\n"
        "optimizer.step()\nbefore != model.weight.tolist()"
    )
    assert run(step) == ("[0] True\n", None)
    run("optimizer = torch.optim.SGD(model.parameters(), lr=2.0)")
    assert run(step) == ("[0] True\n", None)


def test_what_cannot_be_sent_may_have_been_made_in_an_earlier_cell(run):
    run("import threading\nlock = threading.Lock()")
    _, error = run("%%ranks 1 --keep\nlock")
    assert "cannot be sent" in str(error)
    run("%%ranks 1 --keep\nimport threading\nlock = threading.Lock()")
    assert run("%%ranks 1 --keep\nlock.locked()") == ("[0] False\n", None)


def test_a_fork_that_comes_to_the_end_of_its_cell_is_not_the_rank(run):
    run("%%ranks 1 --keep\nimport os\nmine = os.getpid()")
    run("%%ranks 1 --keep\nimport time\nif os.fork() == 0: time.sleep(0.3)")
    for _ in range(4):
        cell = "%%ranks 1 --keep\ntime.sleep(0.2)\nos.getpid() == mine"
        assert run(cell) == ("[0] True\n", None)


def test_output_is_that_of_the_cell_live_or_not(run):
    run("%%ranks 2 --keep\nprint('first')")
    assert run("%%ranks 2 --keep --live\nif rank: print('second')")[0] == "[1] second\n"
    assert run("%%ranks 2 --keep\nprint('third')")[0] == "[0] third\n[1] third\n"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            "3 --keep mine",
            "the kept ranks 'mine' are 2, not 3: go on with them by %%ranks 2 --keep mine",
        ),
        ("2 --keep mine --link 1gbit", "were started without --link, which holds"),
        ("2 --keep mine --threads 2", "were started with --threads 1, which holds"),
        ("2 --keep mine --env A=2", "were started with --env A=1, which holds"),
    ],
)
def test_other_ranks_than_those_that_are_kept_are_one_line(run, line, says):
    run("%%ranks 2 --keep mine --env A=1\nx = rank")
    _, error = run(f"%%ranks {line}\nx")
    assert type(error).__name__ == "UsageError"
    assert says in str(error)
    assert str(error).count("\n") == 0
    assert "%ranks stop mine" in str(error)
    assert run("%%ranks 2 --keep mine --env A=1\nx")[0] == "[0] 0\n[1] 1\n"


def test_ranks_are_listed_and_stopped(run, shell):
    assert run("%ranks")[0] == "No ranks are kept: %%ranks 4 --keep does that.\n"
    run("%%ranks 2 --keep --out pid\nimport os\npid = os.getpid()")
    run("%%ranks 1 --keep other --memory 300mb --out other\nimport os\nother = os.getpid()")
    pids, other = shell.user_ns["pid"], shell.user_ns["other"]
    listed = re.sub(r"[\d.]+ MB( to [\d.]+ MB)?", "N MB", run("%ranks")[0])
    assert re.sub(r"\d+ s ago", "N s ago", listed).splitlines() == [
        "default: 2 ranks, no link, N MB each (N MB RSS, with what it shares), started N s ago",
        "other: 1 rank, no link, N MB (N MB RSS, with what it shares), limit 300mb, "
        "started N s ago",
    ]
    _, error = run("%ranks stop nobody")
    assert str(error) == (
        "%ranks stop nobody: no ranks are kept under that name: there are default, other"
    )
    _, error = run("%ranks halt")
    assert "write %ranks, %ranks stop or %ranks stop NAME" in str(error)
    _, error = run("%ranks stop 'a")
    assert str(error) == "%ranks stop 'a: no closing quotation"
    assert run("%ranks stop other") == ("", None)
    assert gone(other, 1.0)
    assert all(map(runs, pids))
    run("%ranks stop")
    assert gone(pids, 1.0)


def test_a_link_holds_and_its_traffic_is_that_of_the_cell(run, shell):
    cell = "dist.all_reduce(torch.ones(250_000))\nrank"
    run(f"%%ranks 2 --keep --link 1gbit --evidence one\n{DIST}{cell}")
    if shell.user_ns["one"].no_link:
        pytest.skip(shell.user_ns["one"].no_link)
    run(f"%%ranks 2 --keep --evidence two\n{cell}")
    run("%%ranks 2 --keep --evidence three\ndist.barrier()")
    two, three = shell.user_ns["two"], shell.user_ns["three"]
    assert two.link.rate == 10**9
    assert all(1e6 < rank.traffic.sent_bytes < 1.5e6 for rank in two.ranks)
    assert all(0 < rank.traffic.sent_bytes < 1e5 for rank in three.ranks)


def test_a_memory_limit_holds_and_what_is_held_is_counted_for_each_cell(run, shell):
    out, _ = run(
        "%%ranks 1 --keep --memory 100mb --evidence one\n"
        "import torch\nheld = torch.ones(10_000_000)"
    )
    assert out.startswith("Each rank may use 100 MB, kept to it by a ")
    out, error = run(
        "%%ranks 1 --keep --evidence two\nless = torch.ones(1_000_000)\ndel held, less"
    )
    assert (out, error) == ("", None)
    run("%%ranks 1 --keep --evidence three\nless = torch.ones(2_000_000)")
    peaks = [shell.user_ns[name].ranks[0].live.highest["other"] for name in ("one", "two", "three")]
    assert peaks == [40_000_000, 44_000_000, 8_000_000]
    _, error = run("%%ranks 1 --keep\n\nmore = torch.ones(30_000_000)")  # 120 MB
    assert "ran out of its 100 MB at line 3 of the cell, in " in str(error)


@pytest.mark.skipif(WHY is not None, reason=str(WHY))
@pytest.mark.xdist_group("horovod")
def test_ranks_with_horovod_stand_still_between_cells(run, shell):
    run(
        "%%ranks 2 --keep --horovod --out pid\n"
        "import os, torch, horovod.torch as hvd\n"
        "x, pid = hvd.allreduce(torch.tensor([float(rank)]), op=hvd.Sum), os.getpid()"
    )
    pids = shell.user_ns["pid"]
    stopped = {psutil.STATUS_STOPPED}
    until(lambda: {psutil.Process(pid).status() for pid in pids} == stopped, "both to stand", 10)
    cell = "%%ranks 2 --keep --evidence seen\nx = hvd.allreduce(x, op=hvd.Sum, name='x')\nx.item()"
    assert run(cell) == ("[0] 2.0\n[1] 2.0\n", None)
    (call,) = shell.user_ns["seen"].ranks[0].calls
    assert (call.index, call.tensor, call.line) == (1, "allreduce.x", 2)
    _, error = run("%%ranks 2 --keep\nif rank: hvd.allreduce(x, name='y')")
    assert "rank 1 waits in allreduce of 'y' (call 1, line 2 of the cell)" in str(error)
    assert gone(pids, 1.0)


def test_a_server_that_died_is_one_sentence(run, shell):
    run("%%ranks 2 --keep --out pid\nimport os\npid = os.getpid()")
    os.kill(warm.server().pid, signal.SIGKILL)
    assert gone(shell.user_ns["pid"])
    _, error = run("%%ranks 2 --keep\nrank")
    assert str(error) == f"the launch's supervisor went away before its ranks ended\n{GONE}"
    assert run("%%ranks 1 --keep\nrank") == ("[0] 0\n", None)


KERNEL = """
import sys, time
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "hpml")
shell.run_cell('''%%ranks 2 --keep --link 1gbit --out pid,tmp
import os, subprocess, tempfile
child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
pid, tmp = [os.getpid(), child.pid, os.getppid()], tempfile.gettempdir()''')
names = shell.user_ns
from hpml.ranks.parent import warm
print(*sum(names["pid"], []), warm.server().pid, names["tmp"][0], flush=True)
time.sleep(1000 if sys.argv[1:] else 0)
"""


@pytest.mark.parametrize("killed", [True, False])
def test_nothing_is_left_when_the_kernel_is_killed_or_ends(tmp_path, killed):
    with subprocess.Popen(
        [sys.executable, "-c", KERNEL, *(["wait"] if killed else [])],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "HPML_HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
    ) as kernel:
        *pids, scratch = kernel.stdout.readline().split()
        pids = [int(pid) for pid in pids]
        assert len(set(pids)) == 6  # two ranks, a process of each, supervisor, server
        if killed:
            assert all(map(runs, pids))
            assert Path(scratch).is_dir()
            kernel.kill()
        assert kernel.wait(LIMIT) == (-signal.SIGKILL if killed else 0)
        assert gone(pids)
    assert not Path(scratch).exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("hpml-ranks-")]
