"""Frameworks that step in at other places: both sides of what is concluded."""

import pytest

from hpml.modules.m04_frameworks.lecture import stepping_in
from hpml.modules.m04_frameworks.lecture.small_training import in_one_process

STEPS = 5
NODES = (
    "tanh mm mean_of_ranks_3 mm_1 sum_1 mean_of_ranks_2 mm_2 mean_of_ranks_1 sum_2 mean_of_ranks"
)


@pytest.fixture(scope="module")
def right():
    return [in_one_process(2, STEPS)] * 2


@pytest.fixture(scope="module")
def wrong(right):
    return [right[0], right[1] + 1e-6]


def test_weights_are_held_against_one_process(right, wrong):
    assert stepping_in.as_one_process(right, STEPS)[0]
    held, _, otherwise = stepping_in.as_one_process(wrong, STEPS)
    assert not held
    assert "by 1e-06 at most, more than rounding" in otherwise


def test_where_all_reduces_stand_is_counted(right):
    held, sentence, _ = stepping_in.in_the_middle(NODES.split(), right, STEPS)
    assert held
    assert "Of 10 nodes, the 4 all-reduces are numbers 3, 6, 8, 10" in sentence
    assert "4 of 5 nodes that compute are still to come" in sentence


@pytest.mark.parametrize(
    "nodes",
    [
        "mm sum_1 mm_1 mean_of_ranks mean_of_ranks_1 mean_of_ranks_2 mean_of_ranks_3",
        "mean_of_ranks mm",
        "mm sum_1",
        "",
    ],
)
def test_a_graph_without_all_reduces_in_its_middle_is_seen(nodes, right):
    assert not stepping_in.in_the_middle(nodes.split(), right, STEPS)[0]


def test_a_rewritten_graph_that_trains_otherwise_is_seen(wrong):
    assert not stepping_in.in_the_middle(NODES.split(), wrong, STEPS)[0]


def test_who_holds_the_momentum_is_seen(right, wrong):
    held, sentence, _ = stepping_in.held_by_the_store([0, 0, 21056], right, STEPS)
    assert held
    assert "holds 21,056 bytes of momentum, the workers 0" in sentence
    assert not stepping_in.held_by_the_store([8, 0, 21056], right, STEPS)[0]
    assert not stepping_in.held_by_the_store([0, 0, 0], right, STEPS)[0]
    assert not stepping_in.held_by_the_store([0, 0, 21056], wrong, STEPS)[0]


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
    held, sentence, _ = stepping_in.blocks(given, 20, 160)
    assert held
    assert "20 messages instead of 160" in sentence
    assert "0.0060 with plain averages and 0.0030 with block momentum 0.5" in sentence


@pytest.mark.parametrize(
    ("plain", "momentum", "messages"),
    [(0.006, 0.005, 20), (0.006, 0.001, 20), (0.006, 0.003, 160)],
)
def test_block_momentum_that_does_not_is_seen(losses, plain, momentum, messages):
    given = {0.0: [vector(plain)] * 2, 0.5: [vector(momentum)] * 2}
    assert not stepping_in.blocks(given, messages, 160)[0]


def test_ranks_that_do_not_agree_are_seen(losses):
    given = {0.0: [vector(0.006)] * 2, 0.5: [vector(0.003), vector(0.0031)]}
    assert not stepping_in.blocks(given, 20, 160)[0]
