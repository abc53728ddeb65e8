"""Exercise shard_sampler: what its judges say of a right answer's orders with one change."""

import random
import types
from collections import Counter
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
import torch

from hpml.checks import judge
from hpml.modules.m06_torch_distributed.checks import _shards_picture as shards_picture
from hpml.modules.m06_torch_distributed.checks import shard_sampler as exercise

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
        exercise.drive(answer, item) for item in exercise.inputs(SEED, world_size)[exercise.JOB]
    ]


@pytest.fixture
def run_of(hand_made):
    """`run_of(values)`: a run in which another job has the same orders as the first."""

    def in_turns(value, inputs):
        orders = [said["orders"] for said in value["samplers"]]
        return [[*orders[index][epoch]] for index, epoch in inputs["turns"]]

    def made(values):
        job = hand_made(exercise.CHECK, values, seed=SEED)
        given = job.inputs[exercise.ANOTHER]
        whole = all(isinstance(value, dict) and "orders" in str(value) for value in values)
        taken = list(map(in_turns, values, given)) if whole else values
        another = hand_made(exercise.CHECK, taken, seed=SEED)
        stages = {exercise.ANOTHER: another.evidence, exercise.JOB: job.evidence}
        return replace(job, stages=stages)

    return made


def problems(run):
    names = ("cover", "share", "epochs", "repeatable")
    judged = zip(names, (claim.judge(run) for claim in exercise.CHECK.claims), strict=True)
    return {name: problem.hint for name, problem in judged if problem is not None}


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
            lambda order: [True for _ in order],
            {"cover": "types", "epochs": "types", "repeatable": "types"},
        ),
        (lambda order: [-1 - value for value in order], {"cover": "range", "epochs": "range"}),
    ],
)
def test_changed_orders_meet_their_hint(values, run_of, change, found):
    run = run_of(all_orders(change)(values(1)))
    assert problems(run) == found


def test_tensors_are_one_cause_in_all_claims(values, run_of):
    run = run_of(all_orders(lambda order: ["Tensor" for _ in order])(values(2)))
    found = [problem for claim in exercise.CHECK.claims if (problem := claim.judge(run))]
    assert {problem.message for problem in found} == {"the sampler yields Tensor, not int"}
    assert len(found) == 3


def changed_in_epoch(ranks, index, change):
    """The ranks' orders of the longest sampler in one epoch, changed together."""
    orders = [rank["samplers"][1]["orders"] for rank in ranks]
    for own, order in zip(orders, change([own[index] for own in orders]), strict=True):
        own[index] = order
    for rank in ranks:
        rank["samplers"][1]["again"] = rank["samplers"][1]["orders"][-1]
        rank["samplers"][1]["resumed"] = rank["samplers"][1]["orders"][1]
    return ranks


@pytest.mark.parametrize("index", [1, 2])
def test_shares_are_even_in_every_epoch(values, run_of, index):
    def uneven(orders):
        return [orders[0][:-1], [*orders[1], orders[0][-1]]]

    run = run_of(changed_in_epoch(values(2), index, uneven))
    assert problems(run) == {"share": "uneven"}


@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize("turned", [False, True], ids=["moved on", "turned around"])
def test_an_order_that_only_begins_elsewhere_is_no_new_one(values, run_of, world_size, turned):
    ranks = values(world_size)
    first = [rank["samplers"][1]["orders"][0] for rank in ranks]

    def moved(_):
        in_blocks = [sample for order in first for sample in order]
        in_blocks = in_blocks[::-1] if turned else in_blocks
        in_blocks = in_blocks[5:] + in_blocks[:5]
        return [in_blocks[len(first[0]) * r :][: len(first[0])] for r in range(world_size)]

    problem = exercise.CHECK.claims[2].judge(run_of(changed_in_epoch(ranks, 2, moved)))
    assert problem.hint == "shuffle"
    assert "follow the same ones" in problem.message


def test_another_order_in_another_job_is_seen(values, run_of):
    run = run_of(values(2))
    longest = max(run.stages[exercise.ANOTHER].values[1], key=len)
    longest[0], longest[1] = longest[1], longest[0]
    assert problems(run) == {"repeatable": "own_generator"}


def test_each_rank_asks_in_a_sequence_of_its_own_in_another_job():
    turns = [rank["turns"] for rank in exercise.inputs(SEED, 3)[exercise.ANOTHER]]
    assert turns[0] != turns[1] != turns[2] != turns[0]
    assert sorted(turns[0]) == sorted(turns[1]) == sorted(turns[2])


@pytest.mark.parametrize("said", [-1, "Tensor", None])
def test_a_wrong_len_is_seen(values, run_of, said):
    ranks = values(2)
    ranks[0]["samplers"][0]["len"] = said
    assert problems(run_of(ranks)) == {"share": "len"}


@pytest.mark.parametrize(
    "value", [None, [], {}, {"samplers": 3}, {"samplers": [{}] * 7}, {"untouched": True}]
)
def test_ranks_that_bring_back_something_else_fail_every_claim(run_of, value):
    run = run_of([value, value])
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


def test_the_text_has_the_right_numbers(solution):
    answer = types.ModuleType("answer")
    exec("#" + solution("shard_sampler"), answer.__dict__)

    def counts(length, world_size):
        ranks = [answer.ShardSampler(length, rank, world_size) for rank in range(world_size)]
        return sorted(Counter(chain(*ranks)).values())

    assert counts(7, 3) == [1] * 5 + [2] * 2
    assert counts(1, 4) == [4]
    assert counts(0, 3) == []
    assert {7, 1, 0} <= {
        length for length, *_ in exercise.inputs(SEED, 3)[exercise.JOB][0]["samplers"]
    }


def test_the_picture_shows_who_takes_which_sample(solution):
    taken = [[[0, 1]], [[2, 0]]]
    figure = shards_picture.drawn(taken, length=4)
    (axes,) = figure.axes
    cells = {(text.get_position()[0], text.get_text()) for text in axes.texts}
    assert cells == {(0.25, "0"), (0.75, "1"), (1.5, "0"), (2.5, "1"), (3.5, "–")}
    assert (
        axes.get_title("left") == "4 samples for 2 ranks: 4 are taken in an epoch, 1 of them twice"
    )
    check = exercise.CHECK
    assert check.picture(check, solution("shard_sampler")).png.startswith(b"\x89PNG")
    beyond = solution("shard_sampler").replace("def __iter__(self)", "def old(self)")
    beyond += "\n    def __iter__(self): return iter([22])\n"
    with pytest.raises(ValueError, match="not an index of a sample"):
        check.picture(check, beyond)
