"""What torch.distributed's operators do, as data: their name, what a rank puts in, root and peer.

Whatever a call is named in Python or C++ (`all_gather_into_tensor`, `all_gather_single`,
`ProcessGroup._allgather_base`, a functional collective, DistributedDataParallel's reducer, FSDP,
DTensor), it ends in one of the some twenty operators "c10d::..." of PyTorch's dispatcher
(torch/csrc/distributed/c10d/Ops.cpp), and only from there reaches Gloo.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from hpml.ranks.evidence import ANYONE
from hpml.ranks.rank.sizes import measure


@dataclass(frozen=True)
class Operation:
    """One operator. The fields but the first name arguments of its, "" where it has no such."""

    name: str  # as torch.distributed names it
    inputs: str = ""  # the tensors that a rank puts in
    root: bool = False  # it has one, "root_rank"
    peer: str = ""  # the rank at the other end


OPERATIONS = {
    "allreduce_": Operation("all_reduce", "tensors"),
    "allreduce_coalesced_": Operation("all_reduce_coalesced", "tensors"),
    "broadcast_": Operation("broadcast", "tensors", root=True),
    "reduce_": Operation("reduce", "tensors", root=True),
    "allgather_": Operation("all_gather", "input_tensors"),
    "_allgather_base_": Operation("all_gather_into_tensor", "input_tensor"),
    "allgather_coalesced_": Operation("all_gather_coalesced", "input_list"),
    "allgather_into_tensor_coalesced_": Operation("all_gather_into_tensor_coalesced", "inputs"),
    "gather_": Operation("gather", "input_tensors", root=True),
    "scatter_": Operation("scatter", "input_tensors", root=True),
    "reduce_scatter_": Operation("reduce_scatter", "input_tensors"),
    "_reduce_scatter_base_": Operation("reduce_scatter_tensor", "input_tensor"),
    "reduce_scatter_tensor_coalesced_": Operation("reduce_scatter_tensor_coalesced", "inputs"),
    "alltoall_": Operation("all_to_all", "input_tensors"),
    "alltoall_base_": Operation("all_to_all_single", "input"),
    "barrier": Operation("barrier"),
    "monitored_barrier_": Operation("monitored_barrier"),
    "send": Operation("send", "tensors", peer="dst"),
    "recv_": Operation("recv", "tensors", peer="src"),
    "recv_any_source_": Operation("recv", "tensors"),
}


class NoSuchRank(ValueError):
    """A call names a rank that its group does not have. Gloo itself would hang, or crash."""

    def __init__(self, what: str, number: int, size: int) -> None:
        border = {-1: "; rank 0 has nobody before it", size: "; the last rank has nobody after it"}
        there = f"they are 0 to {size - 1}" if size > 1 else "there is rank 0 alone"
        super().__init__(
            f"{what} rank {number}: there is no such rank, {there}{border.get(number, '')}"
        )


@dataclass(frozen=True)
class Described:
    """One call of an operator, as a ledger has it."""

    operation: str
    tensors: tuple[torch.Tensor, ...]  # what the rank puts in
    reduction: str = ""
    root: int | None = None  # global rank
    peer: int | None = None  # global rank at the other end of a message
    tag: int = 0


def describe(
    operator: str, arguments: Mapping[str, Any], ranks: Sequence[int], reduction: str = ""
) -> Described:
    """Describe a call of "c10d::<operator>" with `arguments`, by their names in its schema.

    `ranks` are the group's global ranks, in the group's order. `reduction` is what an operator with
    an argument `reduce_op` reduces by ("sum"); the argument itself cannot be read from Python.
    Raises KeyError for an operator that is not in the table, and NoSuchRank.
    """
    known = OPERATIONS[operator]
    tensors = flat(arguments[known.inputs]) if known.inputs else ()
    if operator == "recv_any_source_":
        return Described(known.name, tensors, peer=ANYONE)
    if known.peer:
        way = "to" if known.peer == "dst" else "from"
        peer = _member(ranks, arguments[known.peer], f"{known.name} {way}")
        return Described(known.name, tensors, peer=peer, tag=arguments["tag"])
    by = (reduction or "sum") if "reduce_op" in arguments else ""
    root = _member(ranks, arguments["root_rank"], f"{known.name} with root") if known.root else None
    return Described(known.name, tensors, by, root)


def _member(ranks: Sequence[int], number: int, what: str) -> int:
    """The global rank of the group's rank `number`."""
    if not 0 <= number < len(ranks):
        raise NoSuchRank(what, number, len(ranks))
    return ranks[number]


def kept_bytes(operator: str, arguments: Mapping[str, Any], place: int, size: int) -> int:
    """Bytes that a rank puts into an all-to-all for itself, and that travel nowhere; else 0.

    `place` is its rank in the group of `size`. Of one tensor, the parts are of as many rows as
    `input_split_sizes` has; else they are equal.
    """
    if operator not in ("alltoall_", "alltoall_base_"):
        return 0
    rows = arguments.get("input_split_sizes") or [1] * size
    share = sum(rows[place : place + 1]) / max(sum(rows), 1)
    return round(measure(flat(arguments[OPERATIONS[operator].inputs])).nbytes * share)


def reduction_among(values: Sequence[Any]) -> str:
    """The name of the reduction ("sum") among the arguments of a ProcessGroup's method, or ""."""
    for value in values:
        found = value if isinstance(value, _REDUCTIONS) else getattr(value, "reduceOp", None)
        if isinstance(found, _REDUCTIONS):
            return str(getattr(found, "op", found)).rsplit(".", 1)[-1].lower()
    return ""


_REDUCTIONS = (dist.ReduceOp, dist.ReduceOp.RedOpType)


def flat(value: Any) -> tuple[torch.Tensor, ...]:
    """The tensors in a tensor, a list of tensors, or a list of lists of them."""
    if isinstance(value, torch.Tensor):
        return (value,)
    return tuple(tensor for item in value for tensor in flat(item))
