# wrong: the library's all_reduce does it
# hint: collective
import torch
import torch.distributed as dist


def naive_all_reduce(tensor: torch.Tensor) -> torch.Tensor:
    """The sum of all ranks' tensors, on every rank, through rank 0.

    `tensor` has the same shape and dtype on all ranks, and stays as it is. Returns a new tensor of
    that shape and dtype.
    """
    total = tensor.clone()
    dist.all_reduce(total)
    return total
