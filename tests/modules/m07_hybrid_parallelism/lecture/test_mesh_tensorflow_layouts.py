"""Mesh-TensorFlow has the slices and sums of the rule; where it is missing, that is reported."""

import importlib.util

import pytest

from hpml.errors import UserError
from hpml.frameworks import run
from hpml.modules.m07_hybrid_parallelism.lecture import mesh_tensorflow_layouts as example
from hpml.modules.m07_hybrid_parallelism.lecture.layouts import holders

LAYOUTS = {
    "nothing": {},
    "data": {"batch": "rows"},
    "both": {"batch": "rows", "hidden": "cols"},
    "turned": {"batch": "cols", "hidden": "rows"},
}


def step(mtf, x, w1, w2, batch, hidden, classes):
    h = mtf.relu(mtf.einsum([x, w1], output_shape=[batch, hidden]))
    y = mtf.einsum([h, w2], output_shape=[batch, classes])
    return [y, *mtf.gradients([mtf.reduce_sum(mtf.square(y))], [w1, w2])]


def test_slices_sums_and_results():
    if lacking := run.missing(example.SCRIPT):
        pytest.skip(lacking)
    told = example.told(step, LAYOUTS)
    assert set(told) == set(LAYOUTS)
    for name, layout in LAYOUTS.items():
        assert told[name]["apart"] < 1e-3
        for tensor, dimensions in example.TENSORS.items():
            sizes = {dimension: example.SIZES[dimension] for dimension in dimensions}
            first = next(iter(holders(sizes, example.MESH, layout)))
            expected = [stop - start for start, stop in first]
            assert told[name]["slices"][tensor] == expected
    assert told["nothing"]["summed"] == {"rows": 0, "cols": 0}
    assert told["data"]["summed"] == {"rows": 4 * (16 * 32 + 32 * 4), "cols": 0}
    assert told["both"]["summed"] == {"rows": 2 * (16 * 32 + 32 * 4), "cols": 4 * 4 * 4}
    assert told["turned"]["summed"] == {"cols": 2 * (16 * 32 + 32 * 4), "rows": 4 * 4 * 4}


def test_a_missing_package_is_reported(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == "mesh_tensorflow" else found(name, *rest),
    )
    with pytest.raises(UserError, match=r"mesh_tensorflow is not installed: pip install mesh"):
        example.told(step, {})
