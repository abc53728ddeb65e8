"""Frameworks that step in at other places: what is seen, and what is not."""

import pytest

from hpml.modules.m04_frameworks.lecture import stepping_in
from hpml.modules.m04_frameworks.lecture.small_training import in_one_process

STEPS = 5
NODES = (
    "tanh mm mean_of_ranks_3 mm_1 sum_1 mean_of_ranks_2 mm_2 mean_of_ranks_1 sum_2 mean_of_ranks"
)


def test_weights_are_held_against_one_process():
    right = in_one_process(2, STEPS)
    assert stepping_in.gap([right] * 2, STEPS) == 0
    assert stepping_in.gap([right, right + 1e-6], STEPS) == pytest.approx(1e-6)


def test_where_all_reduces_stand_is_counted():
    assert stepping_in.all_reduces(NODES.split()) == (True, [2, 5, 7, 9], 5, 4)


@pytest.mark.parametrize(
    "nodes",
    [
        "mm sum_1 mm_1 mean_of_ranks mean_of_ranks_1 mean_of_ranks_2 mean_of_ranks_3",
        "mean_of_ranks mm",
        "mm sum_1",
        "",
    ],
)
def test_a_graph_without_all_reduces_in_its_middle_is_seen(nodes):
    assert not stepping_in.all_reduces(nodes.split()).held


@pytest.fixture
def losses(monkeypatch):
    """Weights' losses, by their first element."""
    monkeypatch.setattr(stepping_in, "loss_of", lambda vector: vector[0].item())
    monkeypatch.setattr(stepping_in, "in_one_process", lambda ranks, steps: vector(0.002))


def vector(value):
    import torch

    return torch.tensor([value], dtype=torch.float64)


def test_block_momentum_that_helps_is_seen(losses):
    given = {0.0: [vector(0.006)] * 2, 0.5: [vector(0.003)] * 2}
    assert stepping_in.after_blocks(given, 160) == (True, {0.0: 0.006, 0.5: 0.003}, 0.002)


@pytest.mark.parametrize(("plain", "momentum"), [(0.006, 0.005), (0.006, 0.001)])
def test_block_momentum_that_does_not_is_seen(losses, plain, momentum):
    given = {0.0: [vector(plain)] * 2, 0.5: [vector(momentum)] * 2}
    assert not stepping_in.after_blocks(given, 160).held


def test_ranks_that_do_not_agree_are_seen(losses):
    given = {0.0: [vector(0.006)] * 2, 0.5: [vector(0.003), vector(0.0031)]}
    assert not stepping_in.after_blocks(given, 160).held
