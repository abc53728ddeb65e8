# wrong: every rank adds up for itself
# hint: everybody
import torch
import torch.distributed as dist


def naive_all_reduce(tensor: torch.Tensor) -> torch.Tensor:
    """The sum of all ranks' tensors, on every rank, through rank 0.

    `tensor` has the same shape and dtype on all ranks, and stays as it is. Returns a new tensor of
    that shape and dtype.
    """
    total = tensor.clone()
    others = [rank for rank in range(dist.get_world_size()) if rank != dist.get_rank()]
    arrived = [torch.empty_like(tensor) for _ in others]
    receives = [dist.irecv(place, other) for place, other in zip(arrived, others, strict=True)]
    sends = [dist.isend(tensor, other) for other in others]
    for work in receives + sends:
        work.wait()
    for summand in arrived:
        total += summand
    return total
