# wrong: the others receive the sum where their own tensor was
# hint: input
import torch
import torch.distributed as dist


def naive_all_reduce(tensor: torch.Tensor) -> torch.Tensor:
    """The sum of all ranks' tensors, on every rank, through rank 0.

    `tensor` has the same shape and dtype on all ranks, and stays as it is. Returns a new tensor of
    that shape and dtype.
    """
    if dist.get_world_size() == 1:
        return tensor.clone()
    if dist.get_rank() == 0:
        total = tensor.clone()
        arrived = torch.empty_like(tensor)
        for other in range(1, dist.get_world_size()):
            dist.recv(arrived, other)
            total += arrived
        for other in range(1, dist.get_world_size()):
            dist.send(total, other)
        return total
    dist.send(tensor, 0)
    dist.recv(tensor, 0)
    return tensor.clone()
