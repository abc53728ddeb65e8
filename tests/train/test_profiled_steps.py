"""Profiles of a training run: which steps, which ranks, where the files go and when."""

import gzip
import json
import os
import subprocess
import sys

import pytest
import torch
from torch_tb_profiler.consts import WORKER_PATTERN
from torch_tb_profiler.io import Cache
from torch_tb_profiler.profiler import RunLoader

from hpml.data import load
from hpml.errors import UserError
from hpml.train import Run, requests
from hpml.train.config import TrainConfig
from hpml.train.profiled_steps import ProfiledSteps

CPU = torch.device("cpu")
PHASES = ["loading", "transforms", "forward", "forward", "backward", "optimizer"]


def config_for(folder, **changes) -> TrainConfig:
    small = {"epochs": 2, "samples": 48, "test_samples": 20, "batch_size": 8, "widths": (8, 16)}
    fixed = {"precision": "fp32", "progress": False, "tensorboard": str(folder), "profile": (0,)}
    return TrainConfig(**(small | fixed | changes))


def events(path) -> list[dict]:
    return json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]


def annotations(found: list[dict]) -> list[str]:
    return [event["name"] for event in found if event.get("cat") == "user_annotation"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What a run of twelve steps leaves."""
    folder = tmp_path_factory.mktemp("profile")
    Run(config_for(folder), load(None), CPU).train(requests.Requests())
    return folder


def test_three_steps_are_recorded_with_their_phases_in_order(folder):
    names = annotations(events(folder / "rank0.pt.trace.json.gz"))
    assert [name for name in names if name.startswith("ProfilerStep")] == [
        "ProfilerStep#3", "ProfilerStep#4", "ProfilerStep#5",
    ]  # fmt: skip
    phases = [name for name in names if name in PHASES]
    assert [name for name in phases if name != "optimizer"] == 3 * PHASES[:-1]
    assert phases.count("optimizer") >= 3


def test_operators_come_with_shapes_and_memory(folder):
    found = events(folder / "rank0.pt.trace.json.gz")
    convolutions = [event for event in found if event["name"] == "aten::conv2d"]
    assert convolutions
    assert all(event["args"]["Input Dims"][0][0] == 8 for event in convolutions)
    assert any(event["name"] == "[memory]" for event in found)


def test_the_tensorboard_plugin_reads_it_beside_the_events(folder):
    names = sorted(path.name.split(".")[0] for path in folder.iterdir())
    assert names == ["events", "rank0"]
    assert WORKER_PATTERN.match("rank0.pt.trace.json.gz")[1] == "rank0"
    with Cache() as cache:
        run = RunLoader("run", str(folder), cache).load()
    assert list(run.profiles) == [("rank0", "default")]
    views = {view.display_name for view in run.profiles["rank0", "default"].views}
    assert views == {"Overview", "Operator", "Trace", "Memory"}


def test_nothing_is_in_the_folder_until_the_run_is_over(tmp_path, monkeypatch):
    for name in ("disk", "logs"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("SLURM_TMPDIR", str(tmp_path / "disk"))
    profiled = ProfiledSteps(tmp_path / "logs", rank=3, world_size=1, cuda=False)
    for _ in range(8):
        torch.ones(2) + 1
        profiled.step(1)
    assert list((tmp_path / "logs").iterdir()) == []
    assert [path.name for path in tmp_path.glob("disk/*/*")] == ["rank3.pt.trace.json.gz"]
    profiled.close()
    assert [path.name for path in (tmp_path / "logs").iterdir()] == ["rank3.pt.trace.json.gz"]
    assert list((tmp_path / "disk").iterdir()) == []


def test_a_run_that_is_stopped_in_the_window_leaves_the_steps_it_had(tmp_path):
    profiled = ProfiledSteps(tmp_path, rank=0, world_size=1, cuda=False)
    for _ in range(4):
        torch.ones(2) + 1
        profiled.step(1)
    profiled.close()
    names = annotations(events(tmp_path / "rank0.pt.trace.json.gz"))
    assert "ProfilerStep#3" in names


def test_of_two_ranks_the_chosen_one_is_profiled_and_the_trace_names_it(tmp_path):
    options = "--epochs 1 --samples 96 --test-samples 20 --batch-size 8 --widths 8,8 --threads 1"
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"),
            *("-m", "hpml.train", *options.split(), "--no-progress"),
            *("--tensorboard", str(tmp_path / "logs"), "--profile", "1"),
        ],
        capture_output=True,
        text=True,
        timeout=240,
        env=os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)},
    )
    assert ended.returncode == 0, ended.stderr
    traces = list((tmp_path / "logs").glob("*.gz"))
    assert [path.name for path in traces] == ["rank1.pt.trace.json.gz"]
    trace = json.loads(gzip.decompress(traces[0].read_bytes()))
    assert (trace["distributedInfo"]["rank"], trace["distributedInfo"]["world_size"]) == (1, 2)
    assert len(list((tmp_path / "logs").glob("events*"))) == 1  # rank 0 alone writes them


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"profile": (0, 2)}, "--profile asks for rank 2, and the last rank is 0"),
        ({"epochs": 1, "batch_size": 16}, "no step before the 4th, and this run has 3"),
    ],
)
def test_a_profile_that_cannot_be_is_refused_before_the_first_step(tmp_path, changes, message):
    with pytest.raises(UserError, match=message):
        Run(config_for(tmp_path, **changes), load(None), CPU).train(requests.Requests())


def test_a_profile_needs_a_folder():
    with pytest.raises(UserError, match="--profile needs --tensorboard DIR"):
        TrainConfig(profile=(0,))
