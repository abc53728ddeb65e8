# wrong: rank 0 keeps the sum to itself
# hint: root_only
import torch
import torch.distributed as dist


def naive_all_reduce(tensor: torch.Tensor) -> torch.Tensor:
    """The sum of all ranks' tensors, on every rank, through rank 0.

    `tensor` has the same shape and dtype on all ranks, and stays as it is. Returns a new tensor of
    that shape and dtype.
    """
    total = tensor.clone()
    if dist.get_rank() == 0:
        arrived = torch.empty_like(tensor)
        for other in range(1, dist.get_world_size()):
            dist.recv(arrived, other)
            total += arrived
    else:
        dist.send(tensor, 0)
    return total
