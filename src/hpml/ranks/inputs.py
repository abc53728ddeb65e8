"""Inputs on their way to a rank: pickled by the parent, tensors as their bytes.

Torch pickles each tensor as a file of its own. To read the first one costs a rank four milliseconds
of processor time.
"""

import io
import pickle
from typing import Any

import cloudpickle
import torch


def dump(inputs: Any) -> bytes:
    """A pickle of `inputs`. Tensors lose whatever they share with each other, but no value."""
    file = io.BytesIO()
    _Pickler(file).dump(inputs)
    return file.getvalue()


def load(data: bytes) -> Any:
    """In the rank: what `dump` was given. The parent is trusted."""
    return pickle.loads(data)


def tensor_of(data: bytes, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    """The tensor whose elements are `data`, in memory of its own."""
    if not data:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(data), dtype=dtype).reshape(shape)


class _Pickler(cloudpickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is torch.Tensor and _is_plain(obj):
            flat = obj.detach().contiguous().as_strided((obj.numel(),), (1,))  # see encoding.py
            data = flat.view(torch.uint8).numpy().tobytes()
            return tensor_of, (data, obj.dtype, tuple(obj.shape))
        return super().reducer_override(obj)


def _is_plain(tensor: torch.Tensor) -> bool:
    return (
        tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and not tensor.requires_grad
        and not tensor.is_conj()
        and not tensor.is_neg()
        and not tensor.is_quantized
    )
