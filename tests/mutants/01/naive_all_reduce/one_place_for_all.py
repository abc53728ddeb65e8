# wrong: all receives are under way into one tensor
# hint: terms
import torch
import torch.distributed as dist


def naive_all_reduce(tensor: torch.Tensor) -> torch.Tensor:
    """The sum of all ranks' tensors, on every rank, through rank 0.

    `tensor` has the same shape and dtype on all ranks, and stays as it is. Returns a new tensor of
    that shape and dtype.
    """
    total = tensor.clone()
    others = range(1, dist.get_world_size())
    if dist.get_rank() == 0:
        arrived = torch.empty_like(tensor)
        for work in [dist.irecv(arrived, other) for other in others]:
            work.wait()
        for _ in others:
            total += arrived
        for other in others:
            dist.send(total, other)
    else:
        dist.send(tensor, 0)
        dist.recv(total, 0)
    return total
