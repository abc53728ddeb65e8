"""The check of mixed_precision: what its judges make of right and wrong values."""

from hpml.checks.m02_hardware.mixed_precision import CHECK


def test_inputs_are_fresh_for_every_seed():
    assert CHECK.inputs(1, 4) != CHECK.inputs(2, 4)
