"""The check of mesh_2d: what its judges make of right and wrong values."""

from hpml.checks.m07_hybrid_parallelism.mesh_2d import CHECK


def test_inputs_are_fresh_for_every_seed():
    assert CHECK.inputs(1, 4) != CHECK.inputs(2, 4)
