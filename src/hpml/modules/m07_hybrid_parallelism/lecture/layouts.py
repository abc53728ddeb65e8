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
from collections.abc import Mapping
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


def holders(
    tensor: Dimensions, mesh: Dimensions, layout: Layout
) -> dict[tuple[tuple[int, int], ...], list[int]]:
    """The ranks that hold each part of a tensor.

    A part is, for each dimension, the first index in it and the first that no longer is. Raises
    IllegalLayout where two dimensions are split over one of the mesh, where a size does not divide,
    and where the mesh has no such dimension.
    """
    refuse(tensor, mesh, layout)
    held: dict[tuple[tuple[int, int], ...], list[int]] = {}
    for rank in range(math.prod(mesh.values())):
        place = coordinates(rank, mesh)
        part = []
        for name, size in tensor.items():
            over = layout.get(name)
            length = size // mesh[over] if over else size
            start = length * place[over] if over else 0
            part.append((start, start + length))
        held.setdefault(tuple(part), []).append(rank)
    return held


def all_reduces(
    product: str, tensors: Mapping[str, Dimensions], mesh: Dimensions, layout: Layout
) -> dict[str, AllReduce]:
    """What follows a product of named tensors (an einsum), float32: "x w -> h".

    By "h" what follows the product itself, by "dx" and "dw" what follows the gradients of its
    inputs. Each of these is a product of all the other tensors: every rank multiplies its slices,
    and dimensions that the result does not have are summed over.

    Raises IllegalLayout as `holders` does, and where two dimensions of the operation, be they of
    one tensor or of two, are split over one dimension of the mesh: no rank would have the products
    of one's slice with the other's.
    """
    *inputs, output = product.replace("->", " ").split()
    whole: dict[str, int] = {}
    for name in (*inputs, output):
        refuse(tensors[name], mesh, layout)
        whole.update(tensors[name])
    refuse(whole, mesh, layout, "operation")
    sums = {}
    for name in (output, *inputs):
        result = tensors[name]
        summed = {layout[n] for n in whole if n not in result and n in layout}
        over = tuple(n for n in mesh if n in summed)
        split = math.prod(mesh[layout[n]] for n in result if n in layout)
        nbytes = FLOAT32 * math.prod(result.values()) // split if over else 0
        sums[name if name == output else f"d{name}"] = AllReduce(over, nbytes)
    return sums
