"""Exercise global_metrics: what its judges say of metrics and calls that are made by hand."""

from dataclasses import replace

import pytest
import torch

from hpml.modules.m06_torch_distributed.checks import global_metrics as exercise
from hpml.ranks.evidence import Call

SEED = 4
MISTYPED = {"exact": "types", "agreed": "types", "empty": "types"}
CALL = Call(1, "all_reduce", (0, 1), 1, "float64", (3,), 24, "sum", 5, 0.0, 0.0, 0.0)


def values(world_size, change=lambda expected, rank: {}):
    """What a right answer's ranks bring back, with what `change` gives put in its place."""
    expected = exercise.expect(exercise.inputs(SEED, world_size), world_size)
    return [
        [
            {key: metrics[key] for key in exercise.KEYS} | change(metrics, rank)
            for metrics in expected
        ]
        for rank in range(world_size)
    ]


def problems(run):
    names = ("exact", "agreed", "empty", "message")
    judged = zip(names, (claim.judge(run) for claim in exercise.CHECK.claims), strict=True)
    return {name: problem.hint for name, problem in judged if problem is not None}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_usual_mistakes_are_far_from_the_truth(seed, world_size):
    """On every draw, so that no wrong answer passes by luck."""
    uneven = exercise.expect(exercise.inputs(seed, world_size), world_size)[0]
    for mistake in (uneven["means"], uneven["batches"], *uneven["own"]):
        assert abs(mistake["loss"] - uneven["loss"]) > 1e-4
        assert not exercise.close("loss", mistake["loss"], uneven["loss"])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_one_rank_lacks_samples_and_others_have_some(seed, world_size):
    lengths = [
        sum(len(labels) for _, labels in rank["sets"][1])
        for rank in exercise.inputs(seed, world_size)
    ]
    assert lengths.count(0) == 1
    for rank in exercise.inputs(seed, world_size):
        assert not sum(len(labels) for _, labels in rank["sets"][2])


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda expected, rank: {}, {}),
        (
            lambda expected, rank: {"accuracy": expected["accuracy"] * (1 + 1e-8)},
            {"exact": "float64", "empty": "float64"},
        ),
        (lambda expected, rank: {"loss": "0.3"}, MISTYPED),
        (lambda expected, rank: {"samples": True}, MISTYPED),
        (lambda expected, rank: {"samples": 10**4000}, MISTYPED),
        (lambda expected, rank: {"samples": float(expected["samples"])}, MISTYPED),
        (
            # All agree, and on nothing that is so
            lambda expected, rank: {"samples": expected["samples"] + 1},
            {"exact": "start", "agreed": "own", "empty": "start"},
        ),
        (lambda expected, rank: {"loss": expected["loss"] * (1 + 1e-7)}, {}),
        (
            # Rank 0 had samples: the batches were not used up
            lambda expected, rank: {"loss": 0.0, "samples": 0} if rank else {},
            {"exact": "own", "agreed": "own", "empty": "own"},
        ),
    ],
)
def test_changed_metrics_meet_their_hint(hand_made, change, found):
    run = hand_made(exercise.CHECK, values(2, change), seed=SEED, calls=[CALL] * 3)
    assert problems(run) == found


@pytest.mark.parametrize(
    ("calls", "hint"),
    [
        ([CALL] * 3, None),
        ([replace(CALL, operation="all_gather", dtype="int64")] * 3, None),
        ([CALL] * 6, "messages"),
        ([], "own"),
        ([replace(CALL, dtype="")] * 3, "float64"),
        ([replace(CALL, nbytes=4096)] * 3, "messages"),
    ],
)
def test_the_ledger_tells_how_it_was_sent(hand_made, calls, hint):
    run = hand_made(exercise.CHECK, values(2), seed=SEED, calls=calls)
    assert problems(run) == ({"message": hint} if hint else {})


def test_one_rank_may_do_without_communication(hand_made):
    assert problems(hand_made(exercise.CHECK, values(1), seed=SEED, calls=[])) == {}


@pytest.mark.parametrize("value", [None, 3, [], [None] * 3, [{}] * 3, {"loss": 0.1}])
def test_ranks_that_bring_back_something_else_are_told_the_types(hand_made, value):
    run = hand_made(exercise.CHECK, [value, value], seed=SEED, calls=[CALL] * 3)
    assert problems(run) == MISTYPED


def test_the_text_has_the_right_numbers():
    largest = torch.tensor(16_777_216.0)
    assert largest + 1 == largest == 2**24
    assert pytest.approx(0.82) == (0.9 * 90 + 0.1 * 10) / 100
    assert (0.9 + 0.1) / 2 == 0.5
