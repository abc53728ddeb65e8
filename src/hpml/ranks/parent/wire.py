"""What Gloo sends for a call in the ledger: the bytes of payload that leave each rank.

All-reduces and gatherings to all go round a ring, and what one rank has for all goes down a
binomial tree (gloo/allreduce.cc, allgather.cc, broadcast.cc, gather.cc, scatter.cc, reduce.cc). A
test holds the kernel's counters against it. Interfaces count headers and acknowledgements as well
(see `evidence.Traffic`), and what it takes to find each other.

Horovod's calls use Gloo too. Not in here: all-reduces of sparse tensors, which are gathered; and of
what ranks gather or exchange in unequal parts, only a rank's own part is known.
"""

from hpml.ranks.evidence import Call

# What Horovod calls them
_HOROVODS = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
}


def sent_bytes(call: Call, rank: int) -> float:
    """Bytes that `call`, made by `rank`, makes that rank send to others.

    With n bytes put in by each of p ranks: an all-reduce or reduce-scatter sends 2 (p-1)/p n, an
    all-gather (p-1) n, an all-to-all all but the rank's own part. Where something is sent on for
    others, that counts for whom it passes.
    """
    size, nbytes = len(call.group), call.nbytes
    if size < 2 or rank not in call.group:
        return 0.0
    operation = call.operation.removesuffix("_coalesced").removesuffix("_into_tensor")
    operation = _HOROVODS.get(operation.removeprefix("grouped_"), operation)
    if operation in ("all_reduce", "reduce_scatter", "reduce_scatter_tensor"):
        return 2 * (size - 1) / size * nbytes
    if operation == "all_gather":
        return (size - 1) * nbytes
    if operation in ("all_to_all", "all_to_all_single"):
        kept = nbytes / size if call.tensor else call.kept  # Horovod's parts are taken as equal
        return nbytes - kept
    if operation == "send":
        return nbytes
    if operation not in ("broadcast", "reduce", "gather", "scatter"):
        return 0.0
    root = call.root
    if root is None or root not in call.group:  # a ledger that a rank wrote may have anything
        return 0.0
    if operation == "broadcast":
        return nbytes * _children((call.group.index(rank) - call.group.index(root)) % size, size)
    if operation == "gather":
        return 0.0 if rank == root else nbytes
    if operation == "scatter":  # the root puts in all parts, its own too
        return (size - 1) / size * nbytes
    return (size - 1) / size * nbytes if rank == root else nbytes  # summed up in a ring first


def _children(place: int, size: int) -> int:
    """How many ranks the one at `place` sends to in a binomial tree with its root at 0."""
    return sum(place < 2**level and place + 2**level < size for level in range(size.bit_length()))
