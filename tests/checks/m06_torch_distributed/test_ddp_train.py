"""Exercise ddp_train: what its judges say of a good run, and of one with one thing changed."""

import inspect
import os
import re
import subprocess
import sys
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
import torch

from hpml.checks import judge
from hpml.checks.compare import state_difference
from hpml.checks.m06_torch_distributed.ddp_train import (
    BATCH,
    CHECK,
    EPOCHS,
    LENGTH,
    TOLERANCE,
    serial,
)
from hpml.checks.plays import play_once
from hpml.ranks.evidence import Diagnosis

SAMPLES, TORCHRUN, SRUN, LOSSES, PRINTS = (claim.judge for claim in CHECK.claims)
SOLUTION = Path(__file__).parents[3] / "solutions" / "06_torch_distributed.py"


@pytest.fixture(scope="module")
def good(solution):
    source = solution("ddp_train").replace("%%answer", "#", 1)
    run, fault = play_once(CHECK, source, world_size=2, seed=5)
    assert fault is None
    return run


def with_ranks(run, change, stage="torchrun"):
    """The run with `change(rank evidence)` in place of each rank's evidence in a stage."""
    evidence = run.stages[stage]
    changed = replace(evidence, ranks=tuple(change(rank) for rank in evidence.ranks))
    return replace(run, stages={**run.stages, stage: changed})


def with_value(run, part, value):
    """The run in which every rank returned `value(rank)` for a part of what it returned."""
    return with_ranks(run, lambda rank: replace(rank, value=rank.value | {part: value(rank.rank)}))


@pytest.mark.parametrize("seed", [1, 20_000])
def test_the_solution_holds_at_every_world_size(solution, seed):
    verdict = judge("ddp_train", solution("ddp_train"), seed=seed)
    assert verdict.passed, verdict


def test_a_good_run_has_no_problems(good):
    assert [claim.judge(good) for claim in CHECK.claims] == [None] * len(CHECK.claims)


def test_the_notebook_shows_the_serial_script_that_is_compared_with():
    text = re.sub(r"^# ?", "", SOLUTION.read_text(), flags=re.MULTILINE)
    assert inspect.getsource(serial).replace("def serial(", "def train(") in text


@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_the_usual_mistakes_lead_far_enough_away(world_size):
    for seed in range(3):
        expected = CHECK.expect(CHECK.inputs(seed, world_size), world_size)
        for mistake in ("scaled", "undivided"):
            assert state_difference(expected[mistake], expected["state"], 10 * TOLERANCE)


def test_samples_that_are_not_shared_out_are_said(good, with_taken):
    def taken(change):
        run = good
        for rank in range(2):
            run = with_taken(
                run, rank, lambda own, rank=rank: [change([*chain(*own)], rank)], "torchrun"
            )
        # Weights that come from the wrong samples are blamed on the samples.
        assert TORCHRUN(run) == SAMPLES(run)
        return SAMPLES(run).hint

    share = LENGTH // 2
    assert taken(lambda own, rank: []) == "no_samples"
    assert taken(lambda own, rank: list(range(LENGTH)) * EPOCHS) == "no_shard"
    assert taken(lambda own, rank: own[:share] * EPOCHS) == "set_epoch"
    assert taken(lambda own, rank: own[:-1]) == "samples"
    assert taken(lambda own, rank: list(range(share)) * EPOCHS) == "samples"
    assert taken(lambda own, rank: list(range(rank, LENGTH, 2)) * EPOCHS) == "order"


LOADER = "DataLoader(dataset, global_batch // world_size, sampler=sampler)"
RIGHT = {
    "workers": [
        (LOADER, LOADER.replace("sampler=", "num_workers=2, sampler=")),
    ],
    "workers that stay, one sample at a time": [
        ("    losses = []", "    dataset = Each(dataset)\n    losses = []"),
        (LOADER, LOADER.replace("sampler=", "num_workers=2, sampler=")),
    ],
    "a subset of indices for each epoch": [
        (
            "        sampler.set_epoch(epoch)\n",
            "        draw = torch.Generator().manual_seed(seed + epoch)\n"
            "        order = torch.randperm(len(dataset), generator=draw).tolist()\n"
            "        part = torch.utils.data.Subset(dataset, order[rank::world_size])\n",
        ),
        (LOADER, "DataLoader(part, global_batch // world_size)"),
    ],
    "consecutive samples of each step": [
        (
            "        sampler.set_epoch(epoch)\n",
            "        draw = torch.Generator().manual_seed(seed + epoch)\n"
            "        order = torch.randperm(len(dataset), generator=draw)\n"
            "        mine = order.reshape(-1, world_size, global_batch // world_size)[:, rank]\n",
        ),
        (LOADER, "DataLoader(dataset, batch_sampler=mine.tolist())"),
    ],
}
EACH = """

class Each(Dataset):
    def __init__(self, whole):
        self.whole = whole

    def __len__(self):
        return len(self.whole)

    def __getitem__(self, index):
        return self.whole[index]
"""


@pytest.mark.parametrize("name", RIGHT)
def test_samples_may_be_taken_in_other_ways(solution, name):
    source = solution("ddp_train") + EACH
    for old, new in RIGHT[name]:
        assert source.count(old) == 1
        source = source.replace(old, new)
    verdict = judge("ddp_train", source, worlds=[3])
    assert verdict.passed, verdict


def test_serial_training_on_every_rank_fails_though_its_weights_are_right(solution):
    """Each rank takes its share for show, and trains on all samples."""
    source = solution("ddp_train")
    for old, new in (
        (LOADER, "show(dataset, global_batch, sampler)"),
        ("parallel = DistributedDataParallel(model.to(device))", "parallel = model"),
        (
            "    optimizer = torch",
            "    for tensor in model.state_dict().values():\n"
            "        dist.broadcast(tensor, 0)\n"
            "    optimizer = torch",
        ),
        ("        dist.all_reduce(total)\n", ""),
    ):
        assert source.count(old) == 1
        source = source.replace(old, new)
    source += """

def show(dataset, global_batch, sampler):
    for mine in sampler:
        dataset[mine]
    draw = torch.Generator().manual_seed(sampler.seed + sampler.epoch)
    order = torch.randperm(len(dataset), generator=draw).tolist()
    return DataLoader(dataset, global_batch, sampler=order)
"""
    run, fault = play_once(CHECK, source.replace("%%answer", "#", 1), world_size=2, seed=5)
    assert fault is None, fault.diagnosis
    for value in run.stages["torchrun"].values:
        assert state_difference(value["state"], run.expected["state"], TOLERANCE) is None
    assert [judge(run).hint for judge in (SAMPLES, TORCHRUN, SRUN)] == ["samples"] * 3


def test_weights_are_traced_to_the_mistake(good):
    def weights(state):
        run = with_value(good, "state", state)
        return TORCHRUN(run).hint

    expected = good.expected
    right = expected["state"]
    off = {name: tensor + 0.01 for name, tensor in right.items()}
    assert weights(lambda rank: expected["scaled"]) == "scaled"
    assert weights(lambda rank: expected["undivided"]) == "undivided"
    assert weights(lambda rank: off) == "weights"
    assert weights(lambda rank: {n: t + rank for n, t in off.items()}) == "not_wrapped"
    assert weights(lambda rank: {n: t.float() for n, t in right.items()}) == "weights"


@pytest.mark.parametrize(
    ("losses", "hint"),
    [
        (None, "losses"),
        (2.3, "losses"),
        ([2.3], "losses"),
        ([torch.tensor(2.3)] * EPOCHS, "losses"),
        (["2.3"] * EPOCHS, "losses"),
        ([2.3, 2.3, float("nan")], "own_loss"),
        ([2.3] * EPOCHS, "own_loss"),
    ],
)
def test_losses_of_every_kind_are_judged(good, losses, hint):
    right = good.expected["losses"]
    run = with_value(good, "losses", lambda rank: losses if rank else right)
    assert LOSSES(run).hint == hint
    assert "rank 1" in LOSSES(run).message


def test_what_is_printed_is_read_line_by_line(good):
    lines = [
        f"epoch {epoch}: loss {loss:.4f}" for epoch, loss in enumerate(good.expected["losses"])
    ]

    def printing(*texts):
        run = with_ranks(good, lambda rank: replace(rank, stdout="\n".join(texts[rank.rank])))
        return PRINTS(run)

    assert printing(lines, []) is None
    assert printing(["a warning", *lines], ["another warning"]) is None
    assert printing(lines, lines).hint == "everyone_prints"
    assert printing(lines[:-1], []).hint == "prints"
    assert printing(["epoch 0: loss 9.0000", *lines[1:]], []).hint == "own_loss"
    assert printing(["epoch 0: loss nan", *lines[1:]], []).hint == "own_loss"
    assert printing(["epoch 0: loss high", *lines[1:]], []).hint == "own_loss"


def test_srun_alone_can_fail(good):
    bad = replace(good.stages["srun"], diagnosis=Diagnosis("raised", "rank 0 raised KeyError"))
    run = replace(good, stages={**good.stages, "srun": bad})
    assert SRUN(run).hint == "raised"
    assert TORCHRUN(run) is None


def test_steps_divide_evenly():
    assert LENGTH % BATCH == 0
    assert all(BATCH % world == 0 for world in CHECK.worlds)


def test_the_answer_is_a_script_that_torchrun_runs(solution, tmp_path):
    script = tmp_path / "ddp_train.py"
    script.write_text(solution("ddp_train").partition("\n")[2])
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    for _ in range(3):
        ended = subprocess.run(
            [*command, str(script)],
            capture_output=True,
            text=True,
            timeout=300,
            cwd=tmp_path,
            env={**os.environ, "TMPDIR": str(tmp_path)},  # torchrun leaves files there
        )
        # Now and then a thread of Gloo's aborts a process that ends, its work done:
        # https://github.com/pytorch/pytorch/pull/179291
        if "terminate called without an active exception" not in ended.stderr:
            break
    assert ended.returncode == 0, ended.stderr
    losses = [float(loss) for loss in re.findall(r"^epoch \d: loss (\S+)$", ended.stdout, re.M)]
    assert len(losses) == 3, "one line per epoch, from rank 0 alone"
    assert losses[-1] < losses[0]
