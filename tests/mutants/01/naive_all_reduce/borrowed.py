# wrong: the library of the course does it
# hint: library
import torch

from hpml.allreduce import all_reduce


def naive_all_reduce(tensor: torch.Tensor) -> torch.Tensor:
    """The sum of all ranks' tensors, on every rank, through rank 0.

    `tensor` has the same shape and dtype on all ranks, and stays as it is. Returns a new tensor of
    that shape and dtype.
    """
    total = tensor.clone()
    all_reduce(total, "naive")
    return total
