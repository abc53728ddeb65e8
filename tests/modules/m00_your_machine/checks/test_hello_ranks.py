"""The check of hello_ranks: what its claims say of values that ranks may return."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hpml.checks.contract import Run
from hpml.modules.m00_your_machine.checks.hello_ranks import CHECK, expect, inputs
from hpml.ranks.evidence import Evidence, RankEvidence


def run_of(values: list, numbers: list[int]) -> Run:
    ranks = tuple(RankEvidence(rank, "returned", value=value) for rank, value in enumerate(values))
    evidence = Evidence(len(values), ranks, 0.1)
    return Run(len(values), 0, numbers, expect(numbers, len(values)), evidence, {"play": evidence})


def hints(values: list, numbers: list[int]) -> list[str]:
    """The hint of each claim; empty where it holds."""
    problems = [claim.judge(run_of(values, numbers)) for claim in CHECK.claims]
    return [problem.hint if problem else "" for problem in problems]


def test_the_sum_on_every_rank_passes():
    assert hints([60, 60, 60], [10, 20, 30]) == ["", ""]


def test_the_texts_three_ranks_return_30():
    assert expect([7, 20, 3], 3) == 30
    assert hints([30, 30, 30], [7, 20, 3]) == ["", ""]


def test_its_own_number_on_rank_0_alone_is_a_wrong_sum():
    assert hints([10, torch.ones(2)], [10, 20]) == ["sum", "sum"]


@pytest.mark.parametrize("value", [60.0, True, "60", torch.tensor(60)])
def test_only_an_int_is_a_number_here(value):
    assert hints([value, value, value], [10, 20, 30]) == ["type", "type"]


def test_what_was_seen_is_said_in_figures():
    problem = CHECK.claims[0].judge(run_of([30, 30, 30], [10, 20, 30]))
    assert problem.message == "rank 0 returned 30"
    assert problem.expected == "10 + 20 + 30 = 60"
    assert problem.hint == "sum"


def test_the_sum_of_one_rank_is_its_number_and_no_equation():
    assert CHECK.claims[0].judge(run_of([30], [27])).expected == "27"


@given(st.integers(0, 2**31 - 1), st.integers(2, 4))
def test_inputs_tell_a_sum_from_what_is_taken_for_it(seed, world_size):
    numbers = inputs(seed, world_size)
    total = expect(numbers, world_size)
    product = 1
    for number in numbers:
        product *= number
    assert len(set(numbers)) == world_size
    assert total not in (*numbers, product, max(numbers), total // world_size)
