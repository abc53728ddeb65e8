"""Layouts: what ranks compute from their slices, added up as predicted, is the whole result."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpml.modules.m07_hybrid_parallelism.lecture import layouts
from hpml.modules.m07_hybrid_parallelism.lecture.layouts import AllReduce, IllegalLayout

LETTERS = {"batch": "b", "io": "i", "hidden": "h"}
SIZES = {"batch": 12, "io": 24, "hidden": 36}
X, W, H = ({n: SIZES[n] for n in names} for names in
           (("batch", "io"), ("io", "hidden"), ("batch", "hidden")))  # fmt: skip
TENSORS = {"X": X, "W": W, "H": H}

meshes = st.permutations(["rows", "columns", "planes"]).flatmap(
    lambda names: st.lists(st.sampled_from([2, 3]), min_size=1, max_size=3).map(
        lambda sizes: dict(zip(names, sizes, strict=False))
    )
)


@st.composite
def legal(draw):
    """A mesh, and a layout that splits some dimensions, each over another of the mesh's."""
    mesh = draw(meshes)
    places = draw(st.permutations([*mesh, None, None, None]))[: len(SIZES)]
    layout = {n: place for n, place in zip(SIZES, places, strict=True) if place}
    return mesh, layout


def ranks_of(mesh):
    return range(math.prod(mesh.values()))


def cut(array, tensor, mesh, layout, rank):
    parts = layouts.holders(tensor, mesh, layout).items()
    (part,) = [part for part, ranks in parts if rank in ranks]
    return array[tuple(slice(*ends) for ends in part)]


def same_but_for(mesh, rank, over):
    """The ranks that an all-reduce adds up with `rank`."""
    own = layouts.coordinates(rank, mesh)
    return [
        other
        for other in ranks_of(mesh)
        if all(layouts.coordinates(other, mesh)[n] == own[n] for n in mesh if n not in over)
    ]


@given(meshes)
def test_coordinates_count_like_an_array_in_row_major_order(mesh):
    for rank in ranks_of(mesh):
        place = np.unravel_index(rank, tuple(mesh.values()))
        assert layouts.coordinates(rank, mesh) == dict(zip(mesh, map(int, place), strict=True))


@given(legal())
def test_slices_cover_the_tensor_and_ranks_with_the_same_slice_are_copies(drawn):
    mesh, layout = drawn
    seen = np.zeros((SIZES["batch"], SIZES["io"]), dtype=int)
    for rank in ranks_of(mesh):
        cut(seen, X, mesh, layout, rank)[...] += 1
    used = {layout[name] for name in X if name in layout}
    copies = math.prod(size for name, size in mesh.items() if name not in used)
    assert (seen == copies).all()


@settings(max_examples=60)
@given(legal())
def test_parts_of_a_product_added_up_as_predicted_are_the_whole_product(drawn):
    mesh, layout = drawn
    draw = np.random.default_rng(0)
    arrays = {n: draw.integers(-9, 9, tuple(t.values())) for n, t in TENSORS.items()}
    sums = layouts.all_reduces("X W -> H", TENSORS, mesh, layout)
    for (a, b), result, reduce in (
        (("X", "W"), "H", sums["H"]),
        (("H", "W"), "X", sums["dX"]),
        (("H", "X"), "W", sums["dW"]),
    ):
        spec = ",".join("".join(LETTERS[n] for n in TENSORS[t]) for t in (a, b))
        spec += "->" + "".join(LETTERS[n] for n in TENSORS[result])
        parts = [
            np.einsum(spec, *(cut(arrays[t], TENSORS[t], mesh, layout, rank) for t in (a, b)))
            for rank in ranks_of(mesh)
        ]
        whole = np.einsum(spec, arrays[a], arrays[b])
        for rank in ranks_of(mesh):
            total = sum(parts[other] for other in same_but_for(mesh, rank, reduce.over))
            assert (total == cut(whole, TENSORS[result], mesh, layout, rank)).all()
            assert reduce.nbytes == (4 * total.size if reduce.over else 0)


def test_data_parallel_training_sums_the_weights_gradient():
    mesh, layout = {"all": 4}, {"batch": "all"}
    assert layouts.all_reduces("X W -> H", TENSORS, mesh, layout) == {
        "H": AllReduce(),
        "dX": AllReduce(),
        "dW": AllReduce(("all",), 4 * 24 * 36),
    }


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        ({"batch": "rows", "io": "rows"}, "batch and io of one tensor are both split over rows"),
        ({"batch": "planes"}, "planes, which the mesh does not have"),
        ({"batch": "five"}, "batch, 12, does not divide by five, 5"),
    ],
)
def test_a_layout_that_cannot_be_is_refused(layout, words):
    with pytest.raises(IllegalLayout, match=words):
        layouts.holders(X, {"rows": 2, "five": 5}, layout)


def test_two_tensors_split_by_different_dimensions_over_one_of_the_mesh_are_refused():
    """Summing a·b over both: each rank would only have the products of its own slices."""
    tensors = {"a": {"first": 4}, "b": {"second": 4}, "c": {}}
    mesh, layout = {"all": 2}, {"first": "all", "second": "all"}
    layouts.holders(tensors["a"], mesh, layout)
    with pytest.raises(IllegalLayout, match="first and second of one operation"):
        layouts.all_reduces("a b -> c", tensors, mesh, layout)


def test_two_summed_dimensions_are_summed_over_both_of_the_mesh_in_its_order():
    tensors = {"a": {"k": 4, "l": 6}, "b": {"l": 6, "k": 4, "m": 5}, "c": {"m": 5}}
    mesh = {"x": 2, "y": 3}
    for layout in ({"k": "x", "l": "y"}, {"l": "y", "k": "x"}):
        sums = layouts.all_reduces("a b -> c", tensors, mesh, layout)
        assert sums["c"] == AllReduce(("x", "y"), 20)
