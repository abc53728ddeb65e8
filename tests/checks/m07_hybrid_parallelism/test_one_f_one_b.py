"""The check of one_f_one_b: what its judges make of right and wrong values."""

from hpml.checks.m07_hybrid_parallelism.one_f_one_b import CHECK


def test_inputs_are_fresh_for_every_seed():
    assert CHECK.inputs(1, 4) != CHECK.inputs(2, 4)
