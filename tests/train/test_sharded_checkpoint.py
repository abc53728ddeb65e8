"""A sharded checkpoint: written in parts by all ranks, read by any layout, never half of one."""

import os
import signal
import sys
from pathlib import Path

import cloudpickle
import numpy as np
import pytest

from hpml.errors import UserError
from hpml.ranks import launch
from hpml.train import Run, checkpoint, requests
from hpml.train.config import TrainConfig

from .test_run import CPU, StopAt, small_data, vit_config

# Ranks get what they run by value; they cannot import a test.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

GLOBAL_BATCH = 24  # images in a step of all copies together; five steps in an epoch


def config(folder: Path | None, copies: int, **changes) -> TrainConfig:
    own = {"batch_size": GLOBAL_BATCH // copies, "lookahead": True}
    kept = {"checkpoint": folder and str(folder), "resume": folder is not None}
    return vit_config(**own | kept | changes)


def part(asked: TrainConfig, steps: int) -> list[list[float]]:
    """Losses after the epochs done so far, of a run that stops after `steps` more."""
    run = Run(asked, small_data(120), CPU)
    run.augment = lambda images, index, consumed: images  # each copy draws its own
    history = run.train(StopAt(steps))
    assert history.stopped is (steps > 0)
    return [[e.train_loss, e.test_loss, e.test_accuracy] for e in history.epochs]


def on_ranks(count: int, asked: TrainConfig, steps: int) -> list[list[float]]:
    if count == 1:
        return part(asked, steps)
    evidence = launch(lambda rank: part(asked, steps), count, inputs=list(range(count)))
    assert evidence.diagnosis is None, evidence.diagnosis
    return evidence.values[0]


FSDP_4 = (4, 4, {"shard": "fsdp"})
TENSOR_2 = (2, 1, {"tensor": 2})
PLAIN = (1, 1, {})
CHAINS = {
    "fsdp 4, tensor 2, plain": (FSDP_4, TENSOR_2, PLAIN),
    "plain, pipeline 2 with fsdp 2, zero1 2": (
        PLAIN,
        (4, 2, {"pipeline": 2, "shard": "fsdp"}),
        (2, 2, {"shard": "zero1"}),
    ),
    "zero1 2, data 2, fsdp 2 with tensor 2": (
        (2, 2, {"shard": "zero1"}),
        (2, 2, {}),
        (4, 2, {"shard": "fsdp", "tensor": 2}),
    ),
}


@pytest.mark.parametrize("chain", CHAINS)
def test_stopped_and_resumed_on_other_layouts_is_one_run(tmp_path, chain):
    """Stopped after 3 steps, in the first epoch, and after 7, in the second."""
    never = part(config(None, 1), 0)
    for (ranks, copies, options), steps in zip(CHAINS[chain], (3, 4, 0), strict=True):
        losses = on_ranks(ranks, config(tmp_path, copies, **options), steps)
        np.testing.assert_allclose(losses, never[: len(losses)], rtol=1e-4)
    assert len(losses) == 2


def test_with_as_many_images_on_each_rank_another_number_of_ranks_is_the_same_run(tmp_path):
    asked = config(tmp_path, 1, batch_size=12, shard="fsdp")
    on_ranks(2, asked, 3)
    assert len(on_ranks(1, asked, 0)) == 2
    with pytest.raises(UserError, match="run with batch_size 12, this one has 7"):
        part(config(tmp_path, 1, batch_size=7), 0)


def test_optimizer_states_come_back_and_each_parameter_keeps_its_own(tmp_path):
    asked = config(tmp_path, 2, shard="fsdp")
    on_ranks(2, asked, 4)
    saved = checkpoint.load(tmp_path)
    assert "tensors" not in saved
    run = Run(config(tmp_path, 1), small_data(120), CPU)
    tensors = run.tensors()
    for name, _ in run.network.named_parameters():
        assert tensors[f"optimizer.{name}.step"] == 4
        assert tensors[f"optimizer.{name}.exp_avg_sq"].any()
        assert tensors[f"optimizer.{name}.exp_avg"].shape == tensors[f"network.{name}"].shape
    assert set(checkpoint.names(saved)) == tensors.keys()


class SaveTwice(requests.Requests):
    """Asks for a checkpoint after step 3 and after step 4, at whose `moment` this rank dies."""

    def __init__(self, moment: str | None):
        super().__init__()
        self.moment, self.steps = moment, 0

    def agreed(self, step, device):
        self.steps += 1
        if self.steps == 4 and self.moment == "removing":
            checkpoint.remove_shards = die_after_the_first_call(checkpoint.remove_shards)
        elif self.steps == 4 and self.moment:
            setattr(os, self.moment, die)
        return requests.SAVE if self.steps in (3, 4) else requests.NOTHING


def die(*args, **options):
    os.kill(os.getpid(), signal.SIGKILL)


def die_after_the_first_call(function):
    """What a save begins with, removing what an earlier one left, is done; its end is not."""
    calls = []

    def called(*args, **options):
        calls.append(args)
        return function(*args, **options) if len(calls) == 1 else die()

    return called


@pytest.mark.parametrize(
    ("moment", "steps"),
    [("fsync", 3), ("replace", 3), ("removing", 4)],
    ids=["writing tensors", "naming their folder", "removing the old ones"],
)
def test_killed_while_saving_leaves_a_checkpoint_that_is_whole(tmp_path, moment, steps):
    asked = config(tmp_path, 2, shard="fsdp", epochs=1)

    def drive(rank):
        run = Run(asked, small_data(120), CPU)
        run.augment = lambda images, index, consumed: images
        run.train(SaveTwice(moment if rank == 0 else None))

    evidence = launch(drive, 2, inputs=[0, 1])
    assert evidence.ranks[0].end == "killed"
    assert checkpoint.load(tmp_path)["position"]["consumed"] == steps * GLOBAL_BATCH
    never = part(config(None, 1, epochs=1), 0)
    np.testing.assert_allclose(on_ranks(2, asked, 0), never, rtol=1e-4)


def test_when_one_rank_is_asked_to_stop_all_save_their_parts_and_stop_at_the_same_step(tmp_path):
    asked = config(tmp_path, 1, pipeline=2, epochs=4)

    def drive(rank):
        listening = requests.Requests()
        if rank == 1:
            listening.note(signal.SIGTERM)
        run = Run(asked, small_data(120), CPU)
        return {"stopped": run.train(listening).stopped, "steps": run.steps}

    evidence = launch(drive, 2, inputs=[0, 1])
    assert evidence.diagnosis is None, evidence.diagnosis
    at = {"stopped": True, "steps": requests.STEPS_BETWEEN_QUESTIONS}
    assert evidence.values == (at, at)
    assert len(on_ranks(1, config(tmp_path, 1, epochs=4), 0)) == 4


def test_only_the_tensors_of_the_last_checkpoint_are_kept(tmp_path):
    asked = config(tmp_path, 2, shard="fsdp")
    on_ranks(2, asked, 0)  # saved after each of two epochs
    assert [path.name for path in tmp_path.glob("shards-*")] == [
        checkpoint.load(tmp_path)["shards"]
    ]


def test_a_folder_of_tensors_that_is_gone_is_one_line(tmp_path):
    on_ranks(2, config(tmp_path, 2, shard="fsdp"), 2)
    checkpoint.remove_shards(tmp_path)
    with pytest.raises(UserError, match="shards-0 is not whole") as refused:
        part(config(tmp_path, 1), 0)
    assert "\n" not in str(refused.value)
