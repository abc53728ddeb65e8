"""What a wrong sum is made of: the words of it come from the values alone."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hpml.checks.compare import Difference
from hpml.modules.m01_parallel_sgd.checks._sums import (
    draw_tensor,
    first_wrong_run,
    made_of,
    multiples,
    wrong_sum,
)


def parts(seed, ranks, length=24, dtype=torch.float64):
    draw = torch.Generator().manual_seed(seed)
    return [draw_tensor(draw, dtype, length) for _ in range(ranks)]


@given(seed=st.integers(0, 2**31), times=st.lists(st.integers(0, 3), min_size=1, max_size=4))
def test_whole_multiples_of_the_ranks_tensors_are_found(seed, times):
    tensors = parts(seed, len(times))
    total = sum(k * tensor for k, tensor in zip(times, tensors, strict=True))
    assert multiples(total, tensors) == times


def test_a_mean_is_found_and_what_is_no_sum_of_them_is_not():
    tensors = parts(3, 4)
    assert multiples(sum(tensors) / 4, tensors) == [0.25] * 4
    assert multiples(tensors[0].flip(0), tensors) is None
    assert multiples(tensors[0] * 0.3, tensors) is None
    assert multiples(torch.full_like(tensors[0], torch.nan), tensors) is None


def test_too_few_elements_tell_nothing():
    tensors = parts(1, 3, length=3)
    assert multiples(sum(tensors), tensors) is None
    assert multiples(sum(tensors)[:0], [tensor[:0] for tensor in tensors]) is None


def test_multiples_in_words():
    assert made_of([1, 0, 2, 0.25]) == "rank 0's + 2 × rank 2's + 0.25 × rank 3's"
    assert made_of([0, 0]) == "nothing but zeros"


@pytest.mark.parametrize(("wrong", "run"), [([2, 3, 7], (2, 4)), ([0], (0, 1)), ([8, 9], (8, 10))])
def test_the_first_run_of_wrong_elements(wrong, run):
    right = torch.arange(10)
    got = right.clone()
    got[wrong] += 1
    assert first_wrong_run(got, right) == run


def test_a_wrong_part_is_told_with_its_place_and_what_it_holds():
    tensors = parts(5, 3, dtype=torch.int64)
    right = sum(tensors)
    got = right.clone()
    got[8:16] = (tensors[0] + tensors[2])[8:16]
    differs, made = wrong_sum(got, tensors, right)
    assert differs.seen.endswith("elements 8 to 15 of 24 are not the sum, but rank 0's + rank 2's")
    assert made == [1, 0, 1]
    assert wrong_sum(right.clone(), tensors, right) is None
    assert wrong_sum(None, tensors, right) == (Difference("is None", "a tensor"), None)
    assert wrong_sum(right.float(), tensors, right) == (Difference("is float32", "int64"), None)
