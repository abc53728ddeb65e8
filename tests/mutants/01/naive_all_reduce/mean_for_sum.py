# wrong: divided by the number of ranks
# hint: mean
import torch
import torch.distributed as dist


def naive_all_reduce(tensor: torch.Tensor) -> torch.Tensor:
    """The sum of all ranks' tensors, on every rank, through rank 0.

    `tensor` has the same shape and dtype on all ranks, and stays as it is. Returns a new tensor of
    that shape and dtype.
    """
    total = tensor.clone()
    size = dist.get_world_size()
    if dist.get_rank() == 0:
        arrived = torch.empty_like(tensor)
        for other in range(1, size):
            dist.recv(arrived, other)
            total += arrived
        total = (total / size).to(tensor.dtype)
        for other in range(1, size):
            dist.send(total, other)
    else:
        dist.send(tensor, 0)
        dist.recv(total, 0)
    return total
