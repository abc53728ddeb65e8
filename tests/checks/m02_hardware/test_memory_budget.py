"""The check of memory_budget: what its judges make of right and wrong values."""

from hpml.checks.m02_hardware.memory_budget import CHECK


def test_inputs_are_fresh_for_every_seed():
    assert CHECK.inputs(1, 4) != CHECK.inputs(2, 4)
