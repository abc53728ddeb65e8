"""Exercise shard_sampler: the right answer holds, and each misconception meets its own hint."""

import random
import types

import numpy as np
import pytest
import torch

from hpml.checks import judge
from hpml.checks.m06_torch_distributed import shard_sampler as exercise

SEED = 5


@pytest.fixture
def own_random_state():
    """The drive seeds the global generators; here that is this process's own."""
    states = random.getstate(), np.random.get_state(), torch.random.get_rng_state()
    yield
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.random.set_rng_state(states[2])


@pytest.fixture
def values(solution, own_random_state):
    """`values(W)` is what the right answer's W ranks bring back."""
    answer = types.ModuleType("answer")
    exec("#" + solution("shard_sampler"), answer.__dict__)
    return lambda world_size: [
        exercise.drive(answer, item) for item in exercise.inputs(SEED, world_size)
    ]


def problems(run):
    names = ("cover", "share", "epochs", "repeatable")
    judged = zip(names, (claim.judge(run) for claim in exercise.CHECK.claims), strict=True)
    return {name: problem.hint for name, problem in judged if problem is not None}


@pytest.mark.parametrize("seed", [0, 1, 20_000])
def test_the_solution_holds_at_every_world_size(solution, seed):
    verdict = judge("shard_sampler", solution("shard_sampler"), seed=seed)
    assert verdict.passed, verdict.headline
    assert verdict.earned == 10


@pytest.mark.parametrize("dealt", ["strided", "in blocks", "padded at the end by hand"])
def test_any_division_of_one_order_is_right(dealt):
    """The contract leaves open which part of the order a rank takes."""
    take = {
        "strided": "self.order()[self.rank :: self.world_size]",
        "in blocks": "self.order()[self.rank * len(self) : (self.rank + 1) * len(self)]",
        "padded at the end by hand": "self.order()[::-1][self.rank :: self.world_size]",
    }[dealt]
    source = f"""
import random

class ShardSampler:
    def __init__(self, length, rank, world_size, seed=0):
        self.length, self.rank, self.world_size, self.seed = length, rank, world_size, seed
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return (self.length + self.world_size - 1) // self.world_size

    def order(self):
        order = list(range(self.length))
        random.Random(1000 * self.seed + self.epoch).shuffle(order)
        return (order * self.world_size)[: len(self) * self.world_size]

    def __iter__(self):
        return iter({take})
"""
    verdict = judge("shard_sampler", source, seed=SEED)
    assert verdict.passed, [claim.message for claim in verdict.claims]


def all_orders(change):
    """The same change made to every order that every rank brought back."""

    def changed(values):
        for value in values:
            for said in value["samplers"]:
                said["orders"] = [change(order) for order in said["orders"]]
                for key in ("again", "resumed", "other seed"):
                    said[key] = change(said[key])
                said["len"] = len(said["again"])
        return values

    return changed


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda order: order, {}),
        (
            lambda order: ["Tensor" for _ in order],
            {"cover": "types", "epochs": "types", "repeatable": "seed"},
        ),
        (
            lambda order: [True for _ in order],
            {"cover": "types", "epochs": "types", "repeatable": "seed"},
        ),
        (lambda order: [-1 - value for value in order], {"cover": "range", "epochs": "range"}),
        (lambda order: order[:-1], {"cover": "tail", "share": "tail"}),
        (lambda order: sorted(order), {"epochs": "shuffle", "repeatable": "seed"}),
    ],
)
def test_changed_orders_meet_their_hint(values, hand_made, change, found):
    run = hand_made(exercise.CHECK, all_orders(change)(values(1)), seed=SEED)
    assert problems(run) == found


def test_a_rank_that_takes_anothers_share_is_seen(values, hand_made):
    ranks = values(3)
    run = hand_made(exercise.CHECK, [ranks[0], ranks[1], ranks[1]], seed=SEED)
    assert problems(run) == {"cover": "own_order"}


def test_a_disturbed_generator_is_seen(values, hand_made):
    ranks = values(2)
    ranks[1]["untouched"] = False
    run = hand_made(exercise.CHECK, ranks, seed=SEED)
    assert problems(run) == {"repeatable": "own_generator"}


@pytest.mark.parametrize("said", [-1, "Tensor", None])
def test_a_wrong_len_is_seen(values, hand_made, said):
    ranks = values(2)
    ranks[0]["samplers"][0]["len"] = said
    assert problems(hand_made(exercise.CHECK, ranks, seed=SEED)) == {"share": "len"}


@pytest.mark.parametrize(
    "value", [None, [], {}, {"samplers": 3}, {"samplers": [{}] * 7}, {"untouched": True}]
)
def test_ranks_that_bring_back_something_else_fail_every_claim(hand_made, value):
    run = hand_made(exercise.CHECK, [value, value], seed=SEED)
    assert set(problems(run).values()) == {"start"}
    assert len(problems(run)) == 4


def test_an_iterator_without_end_is_cut():
    source = """
import itertools

class ShardSampler:
    def __init__(self, length, rank, world_size, seed=0):
        self.length = length

    def set_epoch(self, epoch):
        pass

    def __len__(self):
        return self.length

    def __iter__(self):
        return itertools.cycle(range(self.length)) if self.length else iter([])
"""
    verdict = judge("shard_sampler", source, worlds=(2,), seed=SEED)
    assert verdict.status == "failed"
    assert verdict.claims[0].hint_key == "padding"
