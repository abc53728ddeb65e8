# wrong: the sum goes from rank to rank
# hint: traffic
import torch
import torch.distributed as dist


def naive_all_reduce(tensor: torch.Tensor) -> torch.Tensor:
    """The sum of all ranks' tensors, on every rank, through rank 0.

    `tensor` has the same shape and dtype on all ranks, and stays as it is. Returns a new tensor of
    that shape and dtype.
    """
    total = tensor.clone()
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    arrived = torch.empty_like(tensor)
    if rank > 0:
        dist.recv(arrived, rank - 1)
        total += arrived
    if rank < last:
        dist.send(total, rank + 1)
        dist.recv(total, rank + 1)
    if rank > 0:
        dist.send(total, rank - 1)
    return total
