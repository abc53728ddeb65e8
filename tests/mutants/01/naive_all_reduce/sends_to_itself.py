# wrong: rank 0 sends to and receives from all ranks, itself included
# hint: raised
import torch
import torch.distributed as dist


def naive_all_reduce(tensor: torch.Tensor) -> torch.Tensor:
    """The sum of all ranks' tensors, on every rank, through rank 0.

    `tensor` has the same shape and dtype on all ranks, and stays as it is. Returns a new tensor of
    that shape and dtype.
    """
    total = torch.zeros_like(tensor)
    ranks = range(dist.get_world_size())
    sent = dist.isend(tensor, 0)
    if dist.get_rank() == 0:
        arrived = torch.empty_like(tensor)
        for other in ranks:
            dist.recv(arrived, other)
            total += arrived
        for other in ranks:
            dist.send(total, other)
    else:
        dist.recv(total, 0)
    sent.wait()
    return total
