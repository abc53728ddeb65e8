"""Exercise ddp_train: what its judges say of a good run with one thing changed."""

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
from hpml.modules.m06_torch_distributed.checks.ddp_train import (
    BATCH,
    CHECK,
    EPOCHS,
    LENGTH,
    TOLERANCE,
    serial,
)
from hpml.ranks.evidence import Diagnosis

SAMPLES, TORCHRUN, SRUN, LOSSES, PRINTS = (claim.judge for claim in CHECK.claims)
SOLUTION = Path(__file__).parents[4] / "solutions" / "06_torch_distributed.py"


@pytest.fixture(scope="module")
def good(played):
    return played(CHECK, 2, 5)


def test_the_notebook_shows_the_serial_script_that_is_compared_with():
    text = re.sub(r"^# ?", "", SOLUTION.read_text(), flags=re.MULTILINE)
    assert inspect.getsource(serial).replace("def serial(", "def train(") in text


@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_the_usual_mistakes_lead_far_enough_away(world_size):
    expected = CHECK.expect(CHECK.inputs(world_size, world_size), world_size)
    for mistake in ("scaled", "undivided"):
        assert state_difference(expected[mistake], expected["state"], 10 * TOLERANCE)


def test_samples_may_be_taken_one_at_a_time_from_a_subset_for_each_epoch(solution):
    """What no honest answer to it does."""
    source = solution("ddp_train")
    for old, new in (
        ("    losses = []", "    dataset = Each(dataset)\n    losses = []"),
        (
            "        sampler.set_epoch(epoch)\n",
            "        draw = torch.Generator().manual_seed(seed + epoch)\n"
            "        order = torch.randperm(len(dataset), generator=draw).tolist()\n"
            "        part = torch.utils.data.Subset(dataset, order[rank::world_size])\n",
        ),
        (
            "DataLoader(dataset, global_batch // world_size, sampler=sampler)",
            "DataLoader(part, global_batch // world_size)",
        ),
    ):
        assert source.count(old) == 1
        source = source.replace(old, new)
    source += """

class Each(Dataset):
    def __init__(self, whole):
        self.whole = whole

    def __len__(self):
        return len(self.whole)

    def __getitem__(self, index):
        return self.whole[index]
"""
    verdict = judge("ddp_train", source, worlds=[2])
    assert verdict.passed, verdict


def test_whoever_takes_too_few_samples_or_none_is_told_of_them_in_both_claims(good, with_taken):
    for change, hint in ((lambda own: [], "no_samples"), (lambda own: own[:-1], "samples")):
        run = good
        for rank in range(2):
            run = with_taken(
                run, rank, lambda own, change=change: [change([*chain(*own)])], "torchrun"
            )
        assert SAMPLES(run).hint == hint
        assert TORCHRUN(run) == SAMPLES(run)


@pytest.mark.parametrize("change", [lambda tensor: tensor + 0.01, lambda tensor: tensor.float()])
def test_weights_that_no_known_mistake_leads_to(good, with_ranks, change):
    wrong = {name: change(tensor) for name, tensor in good.expected["state"].items()}
    run = with_ranks(
        good, lambda rank: replace(rank, value=rank.value | {"state": wrong}), "torchrun"
    )
    assert TORCHRUN(run).hint == "weights"


@pytest.mark.parametrize(
    ("losses", "hint"),
    [
        (None, "losses"),
        (2.3, "losses"),
        ([2.3], "losses"),
        ([torch.tensor(2.3)] * EPOCHS, "losses"),
        (["2.3"] * EPOCHS, "losses"),
        ([2.3, 2.3, float("nan")], "own_loss"),
    ],
)
def test_losses_of_every_kind_are_judged(good, with_value, losses, hint):
    run = with_value(good, 1, lambda value: value | {"losses": losses}, "torchrun")
    assert LOSSES(run).hint == hint
    assert "rank 1" in LOSSES(run).message


def test_what_is_printed_is_read_line_by_line(good, with_ranks):
    lines = [
        f"epoch {epoch}: loss {loss:.4f}" for epoch, loss in enumerate(good.expected["losses"])
    ]

    def printing(*texts):
        def of_rank(rank):
            return replace(rank, stdout="\n".join(texts[rank.rank]))

        return PRINTS(with_ranks(good, of_rank, "torchrun"))

    assert printing(lines, []) is None
    assert printing(["a warning", *lines], ["another warning"]) is None
    assert printing(lines[:-1], []).hint == "prints"
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
