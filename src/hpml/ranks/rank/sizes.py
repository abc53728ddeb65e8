"""What tensors weigh, read from the tensors themselves and not from what a subclass says of them.

A subclass of torch.Tensor may answer `numel()`, `dtype` or `shape` with anything, and may take
every function of torch for itself. The functions used here are those of the base class in C++, kept
when this module was imported, with the subclass's own switched off.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._C import DisableTorchFunctionSubclass, TensorBase

_numel, _element_size = TensorBase.numel, TensorBase.element_size
_indices, _values = TensorBase._indices, TensorBase._values
_base: Any = TensorBase  # its properties, which types take for their values
_dtype, _shape, _layout = _base.dtype.__get__, _base.shape.__get__, _base.layout.__get__


@dataclass(frozen=True)
class Carried:
    """What a rank puts into a call: dtype and shape of the first tensor, bytes of all."""

    dtype: str = ""
    shape: tuple[int, ...] = ()
    nbytes: int = 0


def measure(tensors: Sequence[torch.Tensor]) -> Carried:
    """Read dtype, shape and size in bytes of the elements; of a sparse tensor, of what it holds."""
    if not tensors:
        return Carried()
    with DisableTorchFunctionSubclass():
        return Carried(
            str(_dtype(tensors[0])).removeprefix("torch."),
            tuple(_shape(tensors[0])),
            sum(map(_nbytes, tensors)),
        )


def _nbytes(tensor: torch.Tensor) -> int:
    if _layout(tensor) == torch.sparse_coo:
        return _nbytes(_indices(tensor)) + _nbytes(_values(tensor))
    return _numel(tensor) * _element_size(tensor)
