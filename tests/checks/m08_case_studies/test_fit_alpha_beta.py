"""The check of fit_alpha_beta: what its judges make of right and wrong values."""

from hpml.checks.m08_case_studies.fit_alpha_beta import CHECK


def test_inputs_are_fresh_for_every_seed():
    assert CHECK.inputs(1, 4) != CHECK.inputs(2, 4)
