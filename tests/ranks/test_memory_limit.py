"""A rank that wants more memory than it may have ends the launch, and it is known who held what."""

import re
import subprocess
import sys

import cloudpickle
import pytest
import torch
import torch.distributed as dist
from torch import nn

from hpml.errors import UserError
from hpml.ranks import launch, memory_limit
from hpml.ranks.parent import diagnose, warm
from hpml.ranks.parent.ledger import RankLog

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # ranks do not import tests

MB = 10**6
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel limits it on Linux")

# A warm server on a machine without control groups
WITHOUT_GROUPS = """
import socket, sys
from hpml.machine import control_group
from hpml.ranks.server import server
control_group.make = lambda *_: None
control = socket.socket(fileno=int(sys.argv[1]))
server.prepare(sys.argv[2])
server.serve(control)
"""


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("600mb", 600 * MB),
        ("600 MB", 600 * MB),
        ("1.5gb", 1500 * MB),
        ("512MiB", 2**29),
        ("1GiB", 2**30),
        ("20000kb", 20 * MB),
    ],
)
def test_sizes_are_as_people_write_them(text, nbytes):
    assert memory_limit.parse(text) == nbytes


@pytest.mark.parametrize("text", ["", "600", "mb", "-1gb", "1.gb", "6 00mb", "1tb", "600 mbit"])
def test_what_is_no_size_is_one_line(text):
    with pytest.raises(UserError, match=r"give a size, as in 600mb, 1\.5gb or 512MiB"):
        memory_limit.parse(text)


def test_too_small_a_size_is_one_line():
    with pytest.raises(UserError, match="memory of 1 MB: give 16 MB or more for each rank"):
        memory_limit.parse("1mb")
    with pytest.raises(UserError, match="give 16 MB or more"):
        launch(lambda: 0, 1, memory=10)


def test_sizes_in_sentences_are_short():
    assert [memory_limit.words(n) for n in (600 * MB, 1.5e9, 12_345_678, 900)] == [
        "600 MB",
        "1.5 GB",
        "12.3 MB",
        "0.9 kB",
    ]


@pytest.fixture(params=[memory_limit.GROUP, memory_limit.RESOURCE])
def by(request, monkeypatch):
    """What limits the ranks."""
    if request.param == memory_limit.RESOURCE:
        monkeypatch.setattr(warm, "_MAIN", WITHOUT_GROUPS)
        server = warm.WarmServer()
        with warm.using(server):
            yield request.param
        server.kill()
        return
    if launch(lambda: 0, 1, memory=100 * MB).limited != memory_limit.GROUP:
        pytest.skip("no control groups can be made here")
    yield request.param


def layers(number):
    return nn.Sequential(*[nn.Linear(1000, 1000, bias=False) for _ in range(number)])  # 4 MB each


def test_a_model_that_does_not_fit_ends_the_launch_and_one_that_is_split_runs(by):
    def drive(number):
        model = layers(number)
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.randn(10, 1000)).sum().backward()
        optimizer.step()
        dist.barrier()

    evidence = launch(drive, 2, inputs=[2, 10], memory=100 * MB)
    assert evidence.limited == by
    assert evidence.diagnosis.kind == "memory"
    assert evidence.diagnosis.ranks == (1,)
    assert re.fullmatch(
        r"rank 1 ran out of its 100 MB at line \d+ of the code, in \w+: it held 40 MB of "
        r"parameters.*; rank 0 held 8 MB of parameters.*",
        evidence.diagnosis.sentence,
    )
    evidence = launch(drive, 2, inputs=[6, 6], memory=140 * MB)
    assert (evidence.diagnosis, evidence.limited) == (None, by)


def test_ranks_that_run_out_alike_are_in_one_sentence():
    logs = [RankLog(rank, 0.0, out_of_memory=rank != 1) for rank in range(3)]
    page = {"at_peak": [20 * MB, 3 * MB, 10, 0, MB], "operator": "ones.default", "line": 3}
    found = diagnose.out_of_memory(logs, "of the cell", 600 * MB, [page] * 3)
    held = "20 MB of parameters, 3 MB of gradients and 1 MB of other tensors"
    assert (found.kind, found.ranks) == ("memory", (0, 2))
    assert found.sentence == (
        "ranks 0 and 2 ran out of their 600 MB at line 3 of the cell, in ones: "
        f"each of them held {held}; rank 1 held {held}"
    )
    assert diagnose.out_of_memory(logs[1:2], "of the cell", 600 * MB, [page] * 3) is None


def test_memory_that_is_in_no_tensor_counts(by):
    def drive():
        bytearray(200 * MB)

    evidence = launch(drive, 1, memory=100 * MB)
    assert evidence.diagnosis.kind == "memory"
    assert evidence.diagnosis.sentence.endswith("it held less than 1 MB of tensors")


def test_what_a_rank_frees_it_can_have_again(by):
    def drive():
        for _ in range(10):
            torch.ones(10 * MB)  # 40 MB

    assert launch(drive, 1, memory=100 * MB).diagnosis is None


def test_a_rank_that_is_killed_otherwise_has_not_run_out(by):
    def drive():
        import os
        import signal

        os.kill(os.getpid(), signal.SIGKILL)

    assert launch(drive, 1, memory=100 * MB).diagnosis.kind == "killed"


def test_a_group_is_gone_when_the_limit_is_removed():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    limit = memory_limit.Limit(process.pid, 100 * MB)
    group = limit._group
    process.kill()
    process.wait()
    limit.remove()
    if group is None:
        pytest.skip("no control groups can be made here")
    assert not any(folder.exists() for folder in group.folders)
