"""The training script: what many ranks do is what one would do, stopped or not."""

import dataclasses
import json
import os
import signal
import subprocess
import sys

import cloudpickle
import numpy as np
import pytest
import torch
from torch.nn import functional as F

from hpml.data.cifar10 import CLASSES, Data, Split
from hpml.ranks import launch
from hpml.train import Run, make_optimizer, requests, shards
from hpml.train.config import TrainConfig
from hpml.train.history import read_history
from hpml.train.totals import Totals

# Ranks get what they run by value; they cannot import a test.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

CPU = torch.device("cpu")
LIMIT = 240.0  # seconds that any process here may take


def small_data(train: int = 48, test: int = 13) -> Data:
    """Coloured noise, brighter by class; a test set that no number of ranks divides."""
    random = np.random.default_rng(0)

    def split(count: int) -> Split:
        labels = np.arange(count) % 10
        noise = random.integers(0, 60, (count, 3, 32, 32))
        return Split((noise + 18 * labels[:, None, None, None]).astype(np.uint8), labels)

    return Data(split(train), split(test), CLASSES, None, "memory", "binary", True)


def small_config(**changes) -> TrainConfig:
    defaults = {
        "epochs": 2,
        "batch_size": 8,
        "lr": 0.05,
        "lr_rule": "none",
        "widths": (8, 16),
        "precision": "fp32",
        "progress": False,
        "early_share": 0.0,
    }
    return TrainConfig(**(defaults | changes))


def vit_config(**changes) -> TrainConfig:
    own = {"model": "vit", "lr": 0.001, "widths": None, "early_share": None}
    return small_config(**own | changes)


def weights(run: Run) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in run.network.state_dict().items()}


def assert_equal(these, those, **tolerance):
    assert these.keys() == those.keys()
    for name in these:
        torch.testing.assert_close(these[name], those[name], **tolerance)


def test_a_step_of_two_ranks_is_a_step_of_one_on_both_batches():
    """With batch normalisation's statistics held fixed, so that images do not meet in a batch."""
    data, config = small_data(), small_config()

    def step(run: Run, rank: int, world_size: int, batch: int):
        run.augment = lambda images, index, consumed: images
        run.network.eval()
        order = shards.epoch_order(run.images, seed=0, epoch=0)
        for _ in range(3):
            run.step(shards.training_shard(order, rank, world_size)[:batch], Totals())
            order = order.roll(-16)
        return weights(run)

    def drive(rank):
        return step(Run(config, data, CPU), rank, 2, 8)

    evidence = launch(drive, 2, inputs=[0, 1])
    assert evidence.diagnosis is None, evidence.diagnosis
    alone = Run(config, data, CPU)
    start = weights(alone)
    expected = step(alone, 0, 1, 16)
    assert any(not torch.equal(start[name], expected[name]) for name in start)
    for value in evidence.values:
        assert_equal(value, expected, rtol=1e-4, atol=1e-6)


def test_with_batch_statistics_each_rank_normalises_its_own_batch():
    """The mean of the gradients of two batches, each normalised by its own mean and variance."""
    data, config = small_data(), small_config()

    def drive(rank):
        run = Run(config, data, CPU)
        run.augment = lambda images, index, consumed: images
        run.step(torch.arange(8 * rank, 8 * rank + 8), Totals())
        run.average_statistics()
        return weights(run)

    evidence = launch(drive, 2, inputs=[0, 1])
    assert evidence.diagnosis is None, evidence.diagnosis
    halves = [Run(config, data, CPU) for _ in range(2)]
    for half, index in zip(halves, [torch.arange(8), torch.arange(8, 16)], strict=True):
        images, labels = half.training.batch(index)
        logits = half.logits(half.pixels(images))
        F.cross_entropy(logits, labels, label_smoothing=config.label_smoothing).backward()
    one, other = halves
    for mine, theirs in zip(one.network.parameters(), other.network.parameters(), strict=True):
        if mine.requires_grad:
            mine.grad = (mine.grad + theirs.grad) / 2
    optimizer = make_optimizer(one.network, config, one.lr)
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * 0.2  # the schedule's start
    optimizer.step()
    expected = weights(one)
    for name, mean in expected.items():
        if "running" in name:
            mean.copy_((mean + other.network.state_dict()[name]) / 2)
    for value in evidence.values:
        assert_equal(value, expected, rtol=1e-4, atol=1e-6)


class StopAt(requests.Requests):
    """Asks for a checkpoint and a stop at one step, as if by a signal; at 0 never."""

    def __init__(self, step: int):
        super().__init__()
        self.left = step

    def agreed(self, step, device):
        self.left -= 1
        return requests.SAVE_AND_STOP if self.left == 0 else requests.NOTHING


@pytest.mark.parametrize("stop", [1, 4, 6, 8])
def test_stopped_and_resumed_is_as_never_stopped(tmp_path, stop):
    data = small_data()
    never = Run(small_config(), data, CPU)
    whole = never.train(requests.Requests())
    config = small_config(checkpoint=str(tmp_path), resume=True)
    first = Run(config, data, CPU).train(StopAt(stop))
    assert first.stopped
    second = Run(config, data, CPU)
    resumed = second.train(requests.Requests())
    assert not resumed.stopped
    assert_equal(weights(second), weights(never), rtol=0, atol=0)
    for mine, theirs in zip(resumed.epochs, whole.epochs, strict=True):
        assert mine.train_loss == pytest.approx(theirs.train_loss, rel=1e-12)
        assert (mine.train_accuracy, mine.test_loss) == (theirs.train_accuracy, theirs.test_loss)


def test_two_ranks_stopped_and_resumed_are_as_never_stopped(tmp_path):
    data = small_data()

    def drive(folder):
        stopped = small_config(checkpoint=folder, resume=True)
        never = Run(small_config(), data, CPU)
        whole = never.train(requests.Requests())
        assert Run(stopped, data, CPU).train(StopAt(2)).stopped
        again = Run(stopped, data, CPU)
        resumed = again.train(requests.Requests())
        return {
            "never": weights(never),
            "again": weights(again),
            "losses": [[epoch.train_loss for epoch in run.epochs] for run in (whole, resumed)],
        }

    evidence = launch(drive, 2, inputs=[str(tmp_path)] * 2)
    assert evidence.diagnosis is None, evidence.diagnosis
    for value in evidence.values:
        assert_equal(value["again"], value["never"], rtol=1e-5, atol=1e-7)
        assert value["losses"][1] == pytest.approx(value["losses"][0], rel=1e-6)
    assert_equal(evidence.values[0]["again"], evidence.values[1]["again"], rtol=0, atol=0)


def test_stopped_on_two_ranks_and_resumed_on_one_sees_every_image_once(tmp_path, capsys):
    data = small_data()
    config = small_config(epochs=1, checkpoint=str(tmp_path), resume=True)

    def drive(rank):
        Run(config, data, CPU).train(StopAt(2))

    assert launch(drive, 2, inputs=[0, 1]).diagnosis is None
    run = Run(config, data, CPU)
    assert capsys.readouterr().err == (
        "--resume: a step of all ranks was 16 images before the stop, and is 8 now; "
        "--batch-size 16 makes it 16 again\n"
    )
    Run(dataclasses.replace(config, batch_size=16), data, CPU)
    assert capsys.readouterr().err == ""
    seen = []
    step = run.step
    run.step = lambda index, *others: (seen.extend(index.tolist()), step(index, *others))[1]
    history = run.train(requests.Requests())
    order = shards.epoch_order(48, seed=0, epoch=0)
    assert sorted(seen) == sorted(order[32:].tolist())
    assert len(history.epochs) == 1


def test_a_checkpoint_of_another_run_is_refused_in_one_line(tmp_path):
    data = small_data()
    Run(small_config(checkpoint=str(tmp_path)), data, CPU).train(StopAt(1))
    with pytest.raises(Exception, match="run with seed 0, this one has 5") as refused:
        Run(small_config(checkpoint=str(tmp_path), resume=True, seed=5), data, CPU)
    assert "\n" not in str(refused.value)


def test_a_signal_saves_and_carries_on_or_stops(tmp_path):
    data = small_data()
    for number, stops in ((signal.SIGUSR1, False), (signal.SIGTERM, True)):
        folder = tmp_path / number.name
        run = Run(small_config(epochs=1, checkpoint=str(folder)), data, CPU)
        step, saved = run.step, []
        save = run.save

        def signalled(*arguments, step=step, number=number):
            os.kill(os.getpid(), number)
            return step(*arguments)

        run.step = signalled
        run.save = lambda sums, save=save, saved=saved: (saved.append(sums[2].item()), save(sums))
        with requests.listen(True) as asked:
            history = run.train(asked)
        assert history.stopped is stops
        assert saved[0] == 8  # after the first step of eight images
        assert (folder / "checkpoint.pt").exists()


def test_two_ranks_with_few_steps_per_epoch_stop_when_one_is_asked(tmp_path):
    data = small_data()
    config = small_config(epochs=9, checkpoint=str(tmp_path))  # 3 steps in an epoch

    def drive(rank):
        asked = requests.Requests()
        if rank == 1:
            asked.note(signal.SIGTERM)
        run = Run(config, data, CPU)
        history = run.train(asked)
        return {"stopped": history.stopped, "epochs": len(history.epochs), "steps": run.steps}

    evidence = launch(drive, 2, inputs=[0, 1])
    assert evidence.diagnosis is None, evidence.diagnosis
    steps = requests.STEPS_BETWEEN_QUESTIONS
    assert evidence.values == ({"stopped": True, "epochs": steps // 3, "steps": steps},) * 2


def test_it_learns_and_test_metrics_do_not_depend_on_ranks():
    data = small_data(train=96)
    config = small_config(epochs=6, lr=0.2, widths=(8, 16))
    alone = Run(config, data, CPU)
    history = alone.train(requests.Requests())
    assert history.epochs[-1].train_loss < history.epochs[0].train_loss - 0.3
    trained = weights(alone)

    def drive(trained):
        run = Run(config, data, CPU)
        run.network.load_state_dict(trained)
        return list(run.test())

    last = history.epochs[-1]
    for value in launch(drive, 3, inputs=[trained] * 3).values:
        assert value == pytest.approx([last.test_loss, last.test_accuracy], rel=1e-5)


def test_the_same_seed_gives_the_same_run_and_another_another():
    data = small_data()

    def losses(seed: int) -> list[float]:
        torch.rand(1)  # what a caller drew before makes no difference
        history = Run(small_config(seed=seed), data, CPU).train(requests.Requests())
        return [epoch.train_loss for epoch in history.epochs]

    assert losses(1) == losses(1) != losses(2)


def test_every_image_is_mirrored_in_every_other_epoch():
    run = Run(small_config(), small_data(), CPU)
    index = torch.arange(16)
    images, _ = run.training.batch(index)
    run.position.consumed = 0
    mirrored = []
    for epoch in (0, 1, 2):
        run.position.epoch = epoch
        shifted = run.augment(images, index)[:, :, 8:24, 8:24].double()
        # A crop of the plain image or of its mirror image: compare with all shifts of both.
        best = []
        for candidate in (images, images.flip(3)):
            pairs = [
                (shifted - candidate[:, :, 8 + dy : 24 + dy, 8 + dx : 24 + dx]).abs().sum((1, 2, 3))
                for dy in range(-2, 3)
                for dx in range(-2, 3)
            ]
            best.append(torch.stack(pairs).amin(0))
        assert (torch.minimum(*best) == 0).all()
        mirrored.append(best[1] == 0)
    assert torch.equal(mirrored[0], ~mirrored[1])
    assert torch.equal(mirrored[0], mirrored[2])
    assert 0 < mirrored[0].sum() < 16


def test_images_are_small_early_and_whole_late():
    run = Run(small_config(early_size=16, early_share=0.5), small_data(), CPU)
    sides = []
    run.network.stem.register_forward_pre_hook(
        lambda module, inputs: sides.append((module.training, inputs[0].shape[-1]))
    )
    run.train(requests.Requests())
    trained = [side for training, side in sides if training]
    assert trained == [16] * 6 + [32] * 6
    assert {side for training, side in sides if not training} == {32}


def test_look_ahead_changes_the_run_and_its_slow_weights_are_the_result():
    data = small_data()
    plain, averaged = (Run(small_config(lookahead=on), data, CPU) for on in (False, True))
    for run in (plain, averaged):
        run.train(requests.Requests())
    name = "head.weight"
    assert not torch.equal(weights(plain)[name], weights(averaged)[name])
    slow = averaged.lookahead.slow
    fast = {name: value for name, value in weights(averaged).items() if name in slow}
    assert "head.weight" in slow
    assert_equal(slow, fast, rtol=0, atol=0)


def run_script(*options: str, launcher: list[str] | None = None, **environment: str):
    command = [sys.executable, *(launcher or []), "-m", "hpml.train", *options]
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | environment
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, env=environment)


def test_under_torchrun_two_processes_train_together(tmp_path):
    out, scalars = tmp_path / "history.json", tmp_path / "scalars"
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    options = "--epochs 1 --samples 66 --test-samples 33 --batch-size 8 --widths 8,8 --threads 1"
    ended = run_script(
        *options.split(),
        *("--out", str(out), "--tensorboard", str(scalars), "--checkpoint", str(tmp_path)),
        launcher=torchrun,
        TMPDIR=str(tmp_path),  # torchrun leaves files there
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("2 ranks × 1 thread") == 1
    history = read_history(out)
    assert (history.world_size, history.threads, len(history.epochs)) == (2, 1, 1)
    assert history.images_per_second > 0
    assert json.loads(out.read_text())["test_accuracy"] == history.test_accuracy
    assert (history.test_accuracy * 33) == pytest.approx(round(history.test_accuracy * 33))
    assert list(scalars.glob("events.out.tfevents.*"))
    assert (tmp_path / "checkpoint.pt").exists()


def test_under_torchrun_two_processes_share_a_transformer_and_one_goes_on_with_it(tmp_path):
    out = tmp_path / "history.json"
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    options = "--model vit --epochs 2 --samples 40 --test-samples 33 --batch-size 20 --threads 1"
    options += f" --no-progress --out {out} --checkpoint {tmp_path}"
    ended = run_script(*options.split(), "--shard=fsdp", launcher=torchrun, TMPDIR=str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("2 ranks × 1 thread") == 1
    history = read_history(out)
    assert (history.parameters, len(history.epochs)) == (207_690, 2)
    assert [path.is_dir() for path in tmp_path.glob("shards-*")] == [True]
    again = run_script(*options.split(), "--resume")
    assert again.returncode == 0, again.stderr
    assert [epoch.test_accuracy for epoch in read_history(out).epochs] == [
        epoch.test_accuracy for epoch in history.epochs
    ]
    assert "1 rank × 1 thread" in again.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--epochs 0", "--epochs is 0"),
        ("--data /nowhere/at/all", "/nowhere/at/all"),
        ("--model vit --tensor 2 --samples 20", "does not divide 1 rank: start a multiple of 2"),
    ],
)
def test_bad_arguments_give_one_line_and_exit_code_2(options, message):
    ended = run_script(*options.split())
    assert ended.returncode == 2
    assert message in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1
