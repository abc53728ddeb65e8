"""Named dimensions on a mesh of ranks: what each rank holds, and which sums are to be made.

As in Mesh-TensorFlow (Shazeer et al. 2018, arXiv:1811.02084, section 3): a layout names, for some
of a tensor's dimensions, the dimension of the mesh that splits it; all others are whole on every
rank.
Communication follows: where a dimension that an operation sums over is split, each rank has a part
of the sum, and an all-reduce over that dimension of the mesh makes it whole.

`Dimensions` are sizes by name, in order: of a tensor {"batch": 8, "hidden": 32}, of a mesh {"rows":
2, "columns": 2}. The last dimension of a mesh changes fastest from rank to rank.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Dimensions = Mapping[str, int]
Layout = Mapping[str, str]  # a tensor's dimension -> the dimension of the mesh that splits it

FLOAT32 = 4  # bytes


class IllegalLayout(ValueError):
    """A tensor or an operation that a layout cannot split."""


@dataclass(frozen=True)
class AllReduce:
    """A sum over the ranks that differ in the dimensions `over` of the mesh alone.

    Each rank puts in `nbytes`: its slice of the result. `over` is empty where nothing is to be
    added; then `nbytes` is 0.
    """

    over: tuple[str, ...] = ()  # in the mesh's order
    nbytes: int = 0


def coordinates(rank: int, mesh: Dimensions) -> dict[str, int]:
    """Where `rank` is in the mesh, by dimension."""
    place = {}
    for axis, ranks in reversed(list(mesh.items())):
        rank, place[axis] = divmod(rank, ranks)
    return {name: place[name] for name in mesh}


def refuse(dimensions: Dimensions, mesh: Dimensions, layout: Layout, what: str = "tensor") -> None:
    """Raise IllegalLayout where `dimensions` cannot be split so."""
    split: dict[str, str] = {}
    for name, length in dimensions.items():
        over = layout.get(name)
        if over is None:
            continue
        if over not in mesh:
            raise IllegalLayout(f"{name} is to be split over {over}, which the mesh does not have")
        if over in split:
            raise IllegalLayout(
                f"{split[over]} and {name} of one {what} are both split over {over}"
            )
        if length % mesh[over]:
            raise IllegalLayout(f"{name}, {length}, does not divide by {over}, {mesh[over]}")
        split[over] = name


def slice_of(
    tensor: Dimensions, mesh: Dimensions, layout: Layout, rank: int
) -> dict[str, tuple[int, int]]:
    """The first index that `rank` holds of each dimension, and the first that it no longer holds.

    Raises IllegalLayout where two dimensions are split over one of the mesh, where a size does not
    divide, and where the mesh has no such dimension.
    """
    refuse(tensor, mesh, layout)
    place = coordinates(rank, mesh)
    bounds = {}
    for name, size in tensor.items():
        over = layout.get(name)
        length = size // mesh[over] if over else size
        start = length * place[over] if over else 0
        bounds[name] = start, start + length
    return bounds


def local_shape(tensor: Dimensions, mesh: Dimensions, layout: Layout) -> dict[str, int]:
    """The sizes of every rank's slice. Raises IllegalLayout as `slice_of` does."""
    bounds = slice_of(tensor, mesh, layout, 0)
    return {name: stop - start for name, (start, stop) in bounds.items()}


def forward_sum(
    inputs: Sequence[Dimensions], output: Dimensions, mesh: Dimensions, layout: Layout
) -> AllReduce:
    """What follows the product of named tensors (an einsum), float32.

    Every rank multiplies its slices. Dimensions that the output does not have are summed over.
    Raises IllegalLayout as `slice_of` does, and where two dimensions of the operation, be they of
    one tensor or of two, are split over one dimension of the mesh: no rank would have the products
    of one's slice with the other's.
    """
    whole: dict[str, int] = {}
    for tensor in (*inputs, output):
        refuse(tensor, mesh, layout)
        whole.update(tensor)
    refuse(whole, mesh, layout, "operation")
    summed = {layout[name] for name in whole if name not in output and name in layout}
    if not summed:
        return AllReduce()
    nbytes = FLOAT32 * math.prod(local_shape(output, mesh, layout).values())
    return AllReduce(tuple(name for name in mesh if name in summed), nbytes)


def backward_sums(
    inputs: Sequence[Dimensions], output: Dimensions, mesh: Dimensions, layout: Layout
) -> list[AllReduce]:
    """What follows the gradient of each input: the product of the output's gradient and of the
    other inputs, with that input's dimensions. Each dimension stands in two tensors at least.
    """
    forward_sum(inputs, output, mesh, layout)
    return [
        forward_sum([output, *inputs[:place], *inputs[place + 1 :]], one, mesh, layout)
        for place, one in enumerate(inputs)
    ]
