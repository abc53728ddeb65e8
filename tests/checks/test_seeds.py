"""Seeds: no play's inputs, and nothing that is sent to ranks, lead back to a verdict's seed."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from hpml.checks import find, plays, seeds
from hpml.checks.plays import Play, outcomes
from hpml.checks.registry import ids
from hpml.ranks.evidence import Evidence, RankEvidence

SEED = 1_234_567_890_123


def numbers(value: Any) -> Iterator[int | float]:
    """All numbers in plain data."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from numbers(key)
            yield from numbers(each)
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from numbers(each)
    elif isinstance(value, torch.Tensor | np.ndarray):
        yield from numbers(value.tolist())
    elif isinstance(value, int | float):
        yield value


def test_each_play_has_a_number_of_its_own_and_so_has_each_purpose():
    played = {seeds.of_play(seed, w, late) for seed in (1, 2) for w in (1, 2) for late in (0, 1)}
    handed = {seeds.derived(seed, name) for seed in (1, 2) for name in ("order", "model 1")}
    assert (len(played), len(handed)) == (8, 4)
    assert all(0 <= one < 2**62 for one in played)
    assert all(0 <= one < 2**31 for one in handed)


@pytest.mark.parametrize("exercise", ids())
@pytest.mark.parametrize("world_size", [1, 3])
def test_no_rank_is_sent_what_its_inputs_were_drawn_from(exercise, world_size):
    check = find(exercise)
    inputs = check.inputs(SEED, world_size)
    assert [one for one in numbers(inputs) if abs(one - SEED) < 10**6] == []
    for rank in range(world_size) if check.environment else ():
        given = inputs[check.stages[0].name] if check.stages else inputs
        assert str(SEED) not in "".join(check.environment(given, rank, world_size).values())


WEIGHTS = {
    "ddp": lambda inputs, rank: inputs["one model"][rank]["state"],
    "hvd_compression": lambda inputs, rank: inputs["training"][rank]["state"],
    "hvd_keras": lambda inputs, rank: inputs[rank]["weights"],
    "hvd_torch": lambda inputs, rank: inputs["carry on"][0]["checkpoint"]["model"],
}


@pytest.mark.parametrize("exercise", WEIGHTS)
def test_weights_that_ranks_are_sent_are_drawn_from_a_number_of_their_own(exercise):
    # torch draws from a seed's low 32 bits, few enough to try them all on weights that are known
    one, other = (find(exercise).inputs(seed, 2) for seed in (SEED, SEED + 2**32))
    for rank in range(2):
        of_one, of_other = (list(numbers(WEIGHTS[exercise](each, rank))) for each in (one, other))
        assert len(of_one) == len(of_other)
        assert of_one[:10] != of_other[:10]


@pytest.mark.parametrize("side_by_side", [True, False])
def test_no_two_plays_have_the_same_inputs(monkeypatch, side_by_side):
    sent = []

    def launch(drive, world_size, delays=None, **options):
        sent.append(delays)
        ranks = tuple(RankEvidence(rank, "returned", rank) for rank in range(world_size))
        return Evidence(world_size, ranks, 0.0)

    monkeypatch.setattr(plays, "launch", launch)
    check = replace(find("hello_ranks"), inputs=lambda seed, world_size: [seed] * world_size)
    check = replace(check, expect=lambda inputs, world_size: None)
    wanted = [Play(1), Play(2), Play(3), *([] if side_by_side else [Play(3, delayed=True)])]
    runs = [run for run, _ in outcomes(check, "", wanted, SEED, side_by_side=side_by_side)]
    drawn = [run.inputs[0] for run in runs]
    assert [run.seed for run in runs] == drawn
    assert len({SEED, *drawn}) == 1 + len(wanted)
    assert not {*sent} & {SEED, *drawn}
