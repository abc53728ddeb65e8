# wrong: works only for world size 2
# hint: two_ranks
import torch
import torch.distributed as dist


def naive_all_reduce(tensor: torch.Tensor) -> torch.Tensor:
    """The sum of all ranks' tensors, on every rank, through rank 0.

    `tensor` has the same shape and dtype on all ranks, and stays as it is. Returns a new tensor of
    that shape and dtype.
    """
    total = tensor.clone()
    if dist.get_world_size() == 1:
        return total
    arrived = torch.empty_like(tensor)
    if dist.get_rank() == 0:
        dist.recv(arrived, 1)
        total += arrived
        dist.send(total, 1)
    elif dist.get_rank() == 1:
        dist.send(tensor, 0)
        dist.recv(total, 0)
    return total
