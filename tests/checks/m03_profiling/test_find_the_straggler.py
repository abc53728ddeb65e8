"""The check of find_the_straggler: what its judges make of right and wrong values."""

from hpml.checks.m03_profiling.find_the_straggler import CHECK


def test_inputs_are_fresh_for_every_seed():
    assert CHECK.inputs(1, 4) != CHECK.inputs(2, 4)
