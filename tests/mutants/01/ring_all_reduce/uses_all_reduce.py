# wrong: the library's all_reduce does it
# hint: collective
import torch
import torch.distributed as dist


def ring_all_reduce(tensor: torch.Tensor) -> None:
    """`tensor` becomes the sum of all ranks' tensors, in place, around a ring.

    It is contiguous, of any shape, the same shape and dtype on all ranks; its length need not be a
    multiple of the world size, and may be less. Each rank sends to rank + 1 and receives from
    rank - 1, modulo the world size.
    """
    dist.all_reduce(tensor)
