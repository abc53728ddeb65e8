# wrong: even ranks send first, odd ones receive first
# needs: an emulated network
# hint: turns
import torch
import torch.distributed as dist


def ring_all_reduce(tensor: torch.Tensor) -> None:
    """`tensor` becomes the sum of all ranks' tensors, in place, around a ring.

    It is contiguous, of any shape, the same shape and dtype on all ranks; its length need not be a
    multiple of the world size, and may be less. Each rank sends to rank + 1 and receives from
    rank - 1, modulo the world size.
    """
    rank, size = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % size, (rank - 1) % size
    parts = tensor.view(-1).tensor_split(size)
    arrived = torch.empty_like(parts[0])

    for step in range(size - 1):
        mine = parts[(rank - step - 1) % size]
        summand = arrived[: len(mine)]
        exchange(parts[(rank - step) % size], right, summand, left)
        mine += summand
    for step in range(size - 1):
        exchange(parts[(rank - step + 1) % size], right, parts[(rank - step) % size], left)


def exchange(outgoing: torch.Tensor, right: int, incoming: torch.Tensor, left: int) -> None:
    """Send one tensor and receive another at the same time."""
    if dist.get_rank() % 2 == 0 and right != dist.get_rank():
        dist.send(outgoing, right)
        dist.recv(incoming, left)
    else:
        dist.recv(incoming, left)
        dist.send(outgoing, right)
