"""The typed encoding in which values come back from a rank.

Ranks run untrusted code, so nothing of theirs is unpickled: a value crosses as msgpack,
tensors and arrays as (dtype name, shape, raw bytes), and the parent rebuilds exact types from that.
"""

from math import prod
from typing import Any

import msgpack
import numpy as np
import torch

_TENSOR, _ARRAY, _BIG_INT = 1, 2, 3
_TORCH_DTYPES = {
    name: getattr(torch, name)
    for name in (
        "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128"
    ).split()
}
_NUMPY_DTYPES = frozenset(
    "float64 float32 float16 int64 int32 int16 int8 uint64 uint32 uint16 uint8 bool".split()
)
MAX_DEPTH = 32
MAX_ITEMS = 1_000_000  # of all lists and dicts in a value: each takes many times its bytes
MAX_DIMENSIONS = 64  # of a tensor, as PyTorch has it


class NotPlain(TypeError):
    """A value that cannot be sent. The message names the place in the value, and its type."""


def encode(value: Any) -> bytes:
    """`value` as bytes.

    Sent are None, bool, int, float, str, bytes, lists, tuples (arrive as lists), dicts with str
    keys, torch tensors (values only: no graph, no device) and numpy arrays. Subclasses arrive as
    these types, and numpy's scalars as Python's: a float32 as the float of its value. Tensors and
    variables of TensorFlow arrive as arrays.
    Raises NotPlain for anything else.
    """
    return msgpack.packb(_plain(value, "value", 0), use_bin_type=True)


def decode(data: bytes) -> Any:
    """The value that `encode` was given. Raises ValueError where `data` is not such an encoding."""
    left = MAX_ITEMS

    def counted(items: list[Any] | dict[str, Any]) -> Any:
        nonlocal left
        left -= len(items) + 1
        if left < 0:
            raise ValueError(f"it has more than {MAX_ITEMS} items: return a tensor")
        inside = items.values() if isinstance(items, dict) else items
        if isinstance(items, dict) and any(type(key) is not str for key in items):
            raise ValueError("a dict has keys that are not text")
        if msgpack.Timestamp in map(type, inside):  # msgpack makes them by itself
            raise ValueError("a time")
        return items

    try:
        # In a list, so that `counted` sees it whatever it is
        (value,) = msgpack.unpackb(
            b"\x91" + data,
            ext_hook=_rebuild,
            list_hook=counted,
            object_hook=counted,
            raw=False,
            max_array_len=MAX_ITEMS,
            max_map_len=MAX_ITEMS,
        )
        return value
    except Exception as error:  # msgpack raises many kinds, all of them mean the same here
        raise ValueError(f"not a value in the ranks' encoding: {error}") from None


def _plain(value: Any, where: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise NotPlain(f"{where} is nested more than {MAX_DEPTH} deep")
    kind = type(value)
    if isinstance(value, np.generic):  # first: a float64 is a float, too
        value = value.item()
    if value is None or type(value) in (bool, float, str, bytes):
        return value
    if isinstance(value, int):
        value = int.__index__(value)
        if -(2**63) <= value < 2**64:
            return value
        return msgpack.ExtType(_BIG_INT, str(value).encode())
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, torch.Tensor):
        return _tensor(value, where)
    if isinstance(value, np.ndarray):
        return _array(value, where)
    if kind.__module__.startswith("tensorflow.") and hasattr(value, "numpy"):
        return _array(np.asarray(value.numpy()), where)
    if isinstance(value, list | tuple):
        return [_plain(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(value)]
    if isinstance(value, dict):
        for key in value:
            if type(key) is not str:
                raise NotPlain(f"{where} has a key of type {type(key).__name__}, not str")
        return {key: _plain(item, f"{where}[{key!r}]", depth + 1) for key, item in value.items()}
    name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
    raise NotPlain(f"{where} is of type {name}, which cannot be sent")


def _tensor(tensor: torch.Tensor, where: str) -> msgpack.ExtType:
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in _TORCH_DTYPES or tensor.layout is not torch.strided:
        raise NotPlain(f"{where} is a {tensor.layout} tensor of {dtype}, which cannot be sent")
    with torch.no_grad():
        plain = torch.Tensor.detach(tensor).cpu().resolve_conj().resolve_neg().contiguous()
    # A column's single row is contiguous to torch, whatever its stride, and has no view as bytes
    flat = plain.as_strided((plain.numel(),), (1,))
    raw = flat.view(torch.uint8).numpy().tobytes() if len(flat) else b""
    return msgpack.ExtType(_TENSOR, msgpack.packb([dtype, list(plain.shape), raw]))


def _array(array: np.ndarray, where: str) -> msgpack.ExtType:
    if array.dtype.name not in _NUMPY_DTYPES:
        raise NotPlain(f"{where} is an array of {array.dtype}, which cannot be sent")
    packed = msgpack.packb([array.dtype.name, list(array.shape), array.tobytes()])
    return msgpack.ExtType(_ARRAY, packed)


def _rebuild(code: int, data: bytes) -> Any:
    if code == _BIG_INT:
        return int(data.decode("ascii"))
    if code not in (_TENSOR, _ARRAY):
        raise ValueError(f"unknown extension {code}")
    dtype, shape, raw = msgpack.unpackb(
        data, raw=False, max_array_len=MAX_DIMENSIONS, max_map_len=0, max_ext_len=0
    )
    if type(raw) is not bytes or not all(type(n) is int and 0 <= n < 2**63 for n in shape):
        raise ValueError("malformed tensor")
    if code == _TENSOR:
        torch_dtype = _TORCH_DTYPES[dtype]
        if prod(shape) * torch_dtype.itemsize != len(raw):
            raise ValueError("tensor bytes do not fit its shape")
        if not raw:
            return torch.empty(shape, dtype=torch_dtype)
        return torch.frombuffer(bytearray(raw), dtype=torch_dtype).reshape(shape)
    if dtype not in _NUMPY_DTYPES:
        raise ValueError(f"array of {dtype}")
    return np.frombuffer(bytearray(raw), dtype=dtype).reshape(shape)
