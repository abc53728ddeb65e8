# wrong: each part goes to its owner, and from it to all
# hint: neighbours
import torch
import torch.distributed as dist


def ring_all_reduce(tensor: torch.Tensor) -> None:
    """`tensor` becomes the sum of all ranks' tensors, in place, around a ring.

    It is contiguous, of any shape, the same shape and dtype on all ranks; its length need not be a
    multiple of the world size, and may be less. Each rank sends to rank + 1 and receives from
    rank - 1, modulo the world size.
    """
    rank, size = dist.get_rank(), dist.get_world_size()
    parts = tensor.view(-1).tensor_split(size)
    others = [other for other in range(size) if other != rank]
    arrived = [torch.empty_like(parts[rank]) for _ in others]
    works = [dist.irecv(place, other) for place, other in zip(arrived, others, strict=True)]
    works += [dist.isend(parts[other], other) for other in others]
    for work in works:
        work.wait()
    for summand in arrived:
        parts[rank].add_(summand)
    works = [dist.irecv(parts[other], other) for other in others]
    works += [dist.isend(parts[rank], other) for other in others]
    for work in works:
        work.wait()
