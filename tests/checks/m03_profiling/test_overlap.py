"""The check of overlap: what its judges make of right and wrong values."""

from hpml.checks.m03_profiling.overlap import CHECK


def test_inputs_are_fresh_for_every_seed():
    assert CHECK.inputs(1, 4) != CHECK.inputs(2, 4)
