"""A call of a process group as bytes: what a rank sends to its proxy, which makes the call.

Arguments are None, numbers, text, lists of those, and in place of an object a pair of its kind and
its content: a tensor is its number in the call's list of tensors, where each has dtype, shape and
offset in the shared memory. `unpack` builds nothing else, whatever bytes it is given.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import msgpack
import torch
import torch.distributed as dist

MAX_BYTES = 2**20  # of one call, without its tensors
MAX_TENSORS = 10_000
MAX_DIMENSIONS = 64
MAX_DEPTH = 4  # of lists in an argument: all_gather has lists of lists

OPTIONS = {
    name: getattr(torch._C._distributed_c10d, name)
    for name in (
        "AllToAllOptions AllgatherOptions AllreduceCoalescedOptions AllreduceOptions "
        "BarrierOptions BroadcastOptions GatherOptions ReduceOptions ReduceScatterOptions "
        "ScatterOptions"
    ).split()
}
_FIELDS = ("reduceOp", "rootRank", "rootTensor", "timeout", "asyncOp")
_REDUCTIONS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM")
_DTYPES = {str(one): one for one in vars(torch).values() if isinstance(one, torch.dtype)}

Place = tuple[str, tuple[int, ...], int]  # dtype, shape, offset


class NotSendable(TypeError):
    """An argument that no collective takes. The message names its type."""


def pack(
    args: Sequence[Any], kwargs: dict[str, Any], place: Callable[[torch.Tensor], Place]
) -> bytes:
    """The arguments of a call; `place` says of each tensor where it lies. Raises NotSendable."""
    places: list[Place] = []

    def put(tensor: torch.Tensor) -> dict[str, int]:
        places.append(place(tensor))
        return {"tensor": len(places) - 1}

    content = [_plain(args, put), [[name, _plain(value, put)] for name, value in kwargs.items()]]
    return msgpack.packb([*content, places])


# Not inside `pack`: a function that refers to itself would keep the call's tensors until Python
# looks for cycles.
def _plain(value: Any, put: Callable[[torch.Tensor], dict[str, int]]) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, torch.Tensor):
        return put(value)
    if isinstance(value, list | tuple):
        return [_plain(item, put) for item in value]
    if isinstance(value, timedelta):
        return {"milliseconds": round(value / timedelta(milliseconds=1))}
    if isinstance(value, dist.ReduceOp | dist.ReduceOp.RedOpType):
        operation: Any = getattr(value, "op", value)
        return {"reduction": operation.name}
    if type(value).__name__ in OPTIONS:
        fields = {name: getattr(value, name) for name in _FIELDS if hasattr(value, name)}
        return {type(value).__name__: [[name, _plain(f, put)] for name, f in fields.items()]}
    raise NotSendable(f"a process group takes no {type(value).__name__}")


def unpack(
    data: bytes, tensor_at: Callable[[torch.dtype, Sequence[int], int], torch.Tensor]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments that `pack` was given, with tensors made by `tensor_at`.

    Raises ValueError where `data` is not what `pack` makes.
    """
    try:
        args, kwargs, places = msgpack.unpackb(
            data, max_array_len=MAX_TENSORS, max_map_len=1, max_str_len=200, max_ext_len=0
        )
        if len(data) > MAX_BYTES or len(places) > MAX_TENSORS or type(args) is not list:
            raise ValueError("too long")
        tensors = [tensor_at(*_place(one)) for one in places]
        named = {name: _built(value, tensors) for name, value in kwargs if type(name) is str}
        return [_built(value, tensors) for value in args], named
    except Exception as error:  # of many kinds, all of which mean the same here
        raise ValueError(f"not a call: {type(error).__name__}: {error}") from None


def _place(place: Any) -> tuple[torch.dtype, list[int], int]:
    dtype, shape, offset = place
    if len(shape) > MAX_DIMENSIONS or any(type(n) is not int for n in (*shape, offset)):
        raise ValueError("malformed tensor")
    return _DTYPES[dtype], shape, offset


def _built(value: Any, tensors: list[torch.Tensor], depth: int = 0) -> Any:
    if depth > MAX_DEPTH:
        raise ValueError("lists within lists")
    if type(value) is list:
        return [_built(item, tensors, depth + 1) for item in value]
    if type(value) is not dict:
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        if type(content) is not int or content < 0:
            raise ValueError("no tensor's number")
        return tensors[content]
    if kind == "milliseconds":
        return timedelta(milliseconds=int(content))
    if kind == "reduction":
        if content not in _REDUCTIONS:
            raise ValueError("no reduction")
        return getattr(dist.ReduceOp, content)
    options = OPTIONS[kind]()
    for name, field in content:
        if name not in _FIELDS:
            raise ValueError("no field of options")
        setattr(options, name, _built(field, tensors, depth + 1))
    return options
