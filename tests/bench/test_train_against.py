"""The other recipe is what its paper says, and both are run and compared in turn."""

import numpy as np
import pytest
import torch

from hpml.bench import airbench, train_against
from hpml.data.cifar10 import CLASSES, Data, Split


@pytest.fixture
def small(monkeypatch) -> Data:
    random = np.random.default_rng(0)

    def split(count: int) -> Split:
        labels = np.arange(count) % 10
        return Split(random.integers(0, 256, (count, 3, 32, 32)).astype(np.uint8), labels)

    monkeypatch.setattr(airbench, "BATCH", 8)
    monkeypatch.setattr(airbench, "WIDTHS", (8, 16, 16))
    return Data(split(60), split(20), CLASSES, None, "memory", "binary", True)


def test_the_network_has_the_weights_that_the_paper_counts():
    network = airbench.make_network(torch.randn(8, 3, 32, 32))
    trained = sum(p.numel() for p in network.parameters() if p.requires_grad)
    convolutions = 24 * 64 + 64 * 64 + 64 * 256 + 3 * 256 * 256
    assert trained == 24 + 9 * convolutions + 2 * (64 + 256 + 256) + 256 * 10
    assert network(torch.randn(2, 3, 32, 32)).shape == (2, 10)


def test_the_rate_rises_and_falls_between_the_paper_s_shares():
    assert airbench.share_of_lr(0, 100) == pytest.approx(0.2)
    assert airbench.share_of_lr(23, 100) == pytest.approx(1)
    assert airbench.share_of_lr(100, 100) == pytest.approx(0.07)


def test_it_takes_the_share_of_an_epoch_that_is_asked_for_and_ends_on_slow_weights(small):
    run = airbench.Airbench(small, seed=0, epochs=1.5, precision="fp32")
    start = {name: value.clone() for name, value in run.floating().items()}
    run.train_epoch()
    assert (run.step, run.epoch) == (7, 1)  # the last four images make no batch
    run.train_epoch()
    assert (run.step, run.epoch, run.progress) == (11, 2, 1)
    for name, value in run.floating().items():
        assert torch.equal(value, run.slow[name])
        fixed = name == "0.weight" or (name.endswith("weight") and value.ndim == 1)
        assert torch.equal(value, start[name]) == fixed, name


def test_the_bias_of_the_whitening_is_trained_at_first_only(small, monkeypatch):
    monkeypatch.setattr(airbench, "WHITEN_BIAS_EPOCHS", 1)
    # Look-ahead calls weights back to where they have been.
    monkeypatch.setattr(airbench, "LOOKAHEAD_EVERY", 1000)
    run = airbench.Airbench(small, seed=0, epochs=3, precision="fp32")
    biases = []
    for _ in range(3):
        run.train_epoch()
        biases.append(run.network[0].bias.detach().clone())
    assert biases[0].abs().max() > 0
    assert torch.equal(biases[1], biases[0])


def test_accuracies_plain_and_over_shifted_and_mirrored_images(small):
    labels = torch.from_numpy(small.test.labels)
    seen = []

    def logits(pixels: torch.Tensor) -> torch.Tensor:
        seen.append(pixels)
        right = len(seen) == 1  # plain right, the five others wrong together
        return torch.nn.functional.one_hot(labels if right else (labels + 1) % 10, 10).float()

    assert train_against.accuracies(torch.nn.Identity(), logits, small) == [1.0, 0.0]
    assert len(seen) == 6
    assert torch.equal(seen[1], seen[0].flip(3))
    assert torch.equal(seen[2][:, :, 1:, 1:], seen[0][:, :, :-1, :-1])
    assert torch.equal(seen[4][:, :, :-1, :-1], seen[0][:, :, 1:, 1:])


def test_both_are_trained_in_turn_to_their_end_and_compared(small, monkeypatch):
    monkeypatch.setattr(train_against, "load", lambda data: small)
    monkeypatch.setattr(
        train_against,
        "TrainConfig",
        lambda **changed: train_against_config(**changed),
    )
    lines: list[str] = []
    table = train_against.against(None, epochs=2, threads=1, say=lines.append)
    turns = [line.split(":")[0].removeprefix("seed 0, ") for line in lines]
    assert turns == [train_against.OURS, train_against.THEIRS] * 3
    rows = {row.name: row for row in table.rows}
    assert len(rows) == 8
    (ratio,) = table.ratios(rows["hpml train: training"])
    assert ratio > 0
    assert 0 <= rows["airbench94: test accuracy"].values[0] <= 100
    assert "SYNTHETIC" in table.conditions["data"]


def train_against_config(**changed):
    from hpml.train.config import TrainConfig

    return TrainConfig(widths=(8, 16), batch_size=8, precision="fp32", **changed)
