"""The check of autodiff: what its judges make of right and wrong values."""

from hpml.checks.m04_frameworks.autodiff import CHECK


def test_inputs_are_fresh_for_every_seed():
    assert CHECK.inputs(1, 4) != CHECK.inputs(2, 4)
