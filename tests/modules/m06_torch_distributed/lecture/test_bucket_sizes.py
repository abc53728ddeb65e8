"""The cost of a call beside 2α, from seconds and counted calls."""

import pytest

from hpml.modules.m06_torch_distributed.lecture.bucket_sizes import Averaged, finding


def sizes(*seconds):
    names, calls = ("one per parameter", "64 KiB", "512 KiB", "all in one"), (128, 64, 5, 1)
    return {n: Averaged(c, s, 0.019) for n, c, s in zip(names, calls, seconds, strict=True)}


def test_a_call_costs_what_is_above_the_bound():
    held, sentence, _ = finding(sizes(0.192, 0.106, 0.023, 0.022), alpha=235e-6)
    assert held
    assert "one per parameter: 128 calls, 192 ms; 64 KiB: 64 calls, 106 ms" in sentence
    assert "all in one: 1 call, 22 ms." in sentence
    assert "a call costs 1.35 ms in the first case and 1.36 ms in the second" in sentence
    assert "2 α, are 0.47 ms: a call costs 2.9 and 2.9 times that" in sentence


@pytest.mark.parametrize("seconds", [(0.1, 0.106, 0.023, 0.022), (0.192, 0.02, 0.023, 0.022)])
def test_more_calls_that_take_no_longer_are_no_conclusion(seconds):
    held, _, otherwise = finding(sizes(*seconds), alpha=235e-6)
    assert not held
    assert "Other programs had the cores" in otherwise
