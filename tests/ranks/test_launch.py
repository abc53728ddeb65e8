"""Launches for real: what comes back, what is refused, and that nothing stays behind."""

import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest
import torch
import torch.distributed as dist

from hpml.errors import UserError
from hpml.ranks import launch, mark
from hpml.ranks.job import MOST_WITHOUT_CORE
from hpml.ranks.parent import warm

from ..waiting import gone


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_every_rank_gets_its_inputs_and_returns_its_value(world_size):
    def drive(number):
        total = torch.tensor([float(number)])
        dist.all_reduce(total)
        return {"rank": dist.get_rank(), "total": total}

    inputs = [10 * (rank + 1) for rank in range(world_size)]
    evidence = launch(drive, world_size, inputs=inputs)
    assert evidence.diagnosis is None
    assert [value["rank"] for value in evidence.values] == list(range(world_size))
    assert all(value["total"].item() == sum(inputs) for value in evidence.values)


def test_ranks_start_with_random_numbers_of_their_own():
    """As processes do: otherwise who forgets a seed, or a broadcast, would not see it."""

    def drive():
        import random

        import numpy as np

        return [random.random(), np.random.rand(), torch.rand(1).item()]

    values = [value for _ in range(2) for value in launch(drive, 2, process_group=False).values]
    for numbers in zip(*values, strict=True):
        assert len(set(numbers)) == 4


@pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"),
    reason="no processor of the kind for which torch makes its machine code at run time",
)
def test_ranks_start_with_what_a_first_training_step_sets_up():
    """Machine code for a convolution, which oneDNN makes and torch keeps."""

    def drive():
        areas = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
        return [area for area in areas if area[1].startswith("rwx")]

    assert launch(drive, 1, process_group=False).values[0]
    # And no threads: they would not be there after a fork, and be waited for.
    assert psutil.Process(warm.server().pid).num_threads() == 1


def test_what_ranks_leave_in_temporary_files_goes_with_them():
    def drive():
        import subprocess
        import tempfile

        with tempfile.NamedTemporaryFile(delete=False) as file:
            started = subprocess.run(["mktemp"], capture_output=True, text=True, check=True)
        return [file.name, started.stdout.strip()]

    tempfile.gettempdir()  # which remembers it, and is not asked again
    for left in launch(drive, 2, process_group=False).values:
        assert all(left)
        assert not any(map(os.path.exists, left))


def test_the_ledger_has_operation_bytes_group_line_and_times():
    answer = (
        "import torch, torch.distributed as dist\n"
        "def go():\n"
        "    dist.all_reduce(torch.ones(3, 5))\n"
    )
    evidence = launch(lambda answer: answer.go(), 2, answer=answer)
    for rank in evidence.ranks:
        (call,) = rank.calls
        assert (call.index, call.operation, call.group) == (1, "all_reduce", (0, 1))
        assert (call.dtype, call.shape, call.nbytes) == ("float32", (3, 5), 60)
        assert (call.detail, call.line) == ("sum", 3)
        assert 0 <= call.issued <= call.finished <= evidence.seconds


def test_the_ledger_sees_below_pythons_functions_into_ddp():
    def drive():
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
        mark("backward")
        model(torch.ones(2, 4)).sum().backward()

    evidence = launch(drive, 2)
    for rank in evidence.ranks:
        (backward,) = rank.marks
        after = [call for call in rank.calls if call.issued > backward.at]
        assert [(call.operation, call.nbytes) for call in after] == [("all_reduce", 4 * 20)]
        assert all(call.finished is not None for call in after)


def test_calls_in_subgroups_are_numbered_within_their_group():
    def drive():
        pairs = [dist.new_group([0, 1]), dist.new_group([1, 2])]
        for ranks, group in zip(((0, 1), (1, 2)), pairs, strict=True):
            if dist.get_rank() in ranks:
                dist.all_reduce(torch.ones(1), group=group)
        dist.barrier()

    evidence = launch(drive, 3)
    assert evidence.diagnosis is None
    middle = [(c.operation, c.group, c.sequence) for c in evidence.ranks[1].calls]
    assert ("all_reduce", (0, 1), 1) in middle
    assert ("all_reduce", (1, 2), 1) in middle


def test_torch_distributed_looks_as_it_always_does():
    def drive():
        gathered = [None, None]
        dist.all_gather_object(gathered, dist.get_rank())
        return [dist.get_backend(), gathered, dist.is_initialized()]

    assert launch(drive, 2).values[0] == ["gloo", [0, 1], True]


def test_an_answer_may_start_its_own_group_from_the_environment():
    answer = (
        "import torch, torch.distributed as dist\n"
        "def go():\n"
        "    dist.init_process_group('gloo')\n"
        "    t = torch.ones(1); dist.all_reduce(t); return t.item()\n"
    )
    evidence = launch(lambda answer: answer.go(), 3, answer=answer, process_group=False)
    assert evidence.diagnosis is None
    assert list(evidence.values) == [3.0, 3.0, 3.0]


def test_two_launches_at_once_do_not_meet():
    from concurrent.futures import ThreadPoolExecutor

    def drive(number):
        total = torch.tensor([number])
        dist.all_reduce(total)
        return total.item()

    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(launch, drive, 2, inputs=[i, i]) for i in range(8)]
        assert [list(job.result().values) for job in jobs] == [[2 * i, 2 * i] for i in range(8)]


def test_output_is_kept_by_rank_and_bounded():
    def drive(number):
        print(f"I am {number}")
        os.write(2, b"and this is stderr\n")
        if number == 1:
            for _ in range(3000):
                print("x" * 999)

    quiet, loud = launch(drive, 2, inputs=[0, 1]).ranks
    assert quiet.stdout == "I am 0\nand this is stderr\n"
    assert not quiet.stdout_cut
    assert len(loud.stdout) == 2**20
    assert loud.stdout_cut


def test_ranks_run_in_an_empty_folder_that_goes_with_them():
    def drive():
        Path("made").write_text("x")
        return [os.getcwd(), sorted(os.listdir())]

    folder, content = launch(drive, 1).values[0]
    assert content == ["made"]
    assert not Path(folder).exists()


def test_inputs_of_many_megabytes_arrive():
    data = torch.rand(4_000_000)
    evidence = launch(lambda tensor: tensor[::7], 2, inputs=[data, data])
    assert all(torch.equal(value, data[::7]) for value in evidence.values)


def test_peak_memory_is_what_the_rank_took_on_top_of_its_fork():
    def drive():
        torch.ones(50_000_000)  # 200 MB

    (rank,) = launch(drive, 1).ranks
    assert 190e6 < rank.peak_bytes < 300e6


@pytest.mark.parametrize(
    ("arguments", "says"),
    [((0,), "world size 0"), ((65,), "from 1 to 64"), ((2, [1]), "1 inputs for 2 ranks")],
)
def test_arguments_that_cannot_be_meant_are_one_line(arguments, says):
    world_size, *inputs = arguments
    with pytest.raises(UserError, match=says):
        launch(lambda: 0, world_size, inputs=inputs[0] if inputs else None)


def test_nothing_outlives_a_launch_not_even_a_daemon():
    def drive():
        script = "import os, time; os.setsid(); print(os.getpid(), flush=True); time.sleep(1000)"
        daemon = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
        return [os.getpid(), int(daemon.stdout.readline())]

    evidence = launch(drive, 2)
    assert evidence.diagnosis is None
    for pids in evidence.values:
        assert all(gone(pid, limit=0.5) for pid in pids)


def test_the_supervisor_killed_by_a_rank_takes_nothing_with_it(tmp_path):
    told = tmp_path / "told"

    def drive(told):
        if dist.get_rank() == 0:
            Path(told).write_text(os.environ["TMPDIR"])
            os.kill(os.getppid(), 9)
        time.sleep(60)

    with pytest.raises(warm.ServerDied):
        launch(drive, 2, inputs=[str(told)] * 2)
    assert "hpml-ranks-" in told.read_text()
    assert not Path(told.read_text()).exists()
    assert launch(lambda: 1, 2).values == (1, 1)


def test_a_server_that_was_killed_is_started_again():
    launch(lambda: 1, 1)
    os.kill(warm.server().pid, 9)
    assert gone(warm.server().pid) or warm.server().alive()
    assert launch(lambda: 2, 2).values == (2, 2)


@pytest.mark.measures
def test_killing_the_parent_ends_server_and_ranks(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(
        "import os, time\n"
        "from pathlib import Path\n"
        "from hpml.ranks import launch; from hpml.ranks.parent import warm\n"
        "def drive(folder):\n"
        "    Path(folder, str(os.getpid())).touch()\n"
        "    time.sleep(1000)\n"
        "Path('server').write_text(str(warm.server().pid))\n"
        "launch(drive, 2, inputs=['.', '.'], cwd='ranks')\n"
    )
    ranks = tmp_path / "ranks"
    ranks.mkdir()
    parent = subprocess.Popen([sys.executable, str(script)], cwd=tmp_path, start_new_session=True)
    deadline = time.monotonic() + 60
    while len(list(ranks.iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    pids = [int(file.name) for file in ranks.iterdir()]
    assert len(pids) == 2
    parent.kill()
    parent.wait()
    assert all(gone(pid) for pid in [*pids, int((tmp_path / "server").read_text())])


def test_ranks_find_the_node_on_which_they_are_in_their_environment():
    def drive():
        names = ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")
        return [int(os.environ[name]) for name in names]

    found = launch(drive, 3, per_node=2, process_group=False).values
    assert found == ([0, 0, 2, 0], [1, 1, 2, 0], [2, 0, 1, 1])


def test_gloo_gives_up_after_the_launch_has_whatever_the_machine_does():
    """Else the rank that waits for a slow one is to blame."""

    def drive():
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        return backend.options._timeout.total_seconds()

    assert launch(drive, 1, timeout=7).values[0] > (1 + MOST_WITHOUT_CORE) * 7
