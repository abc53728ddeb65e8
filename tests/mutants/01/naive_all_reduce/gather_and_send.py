# wrong: the library's gather brings the tensors to rank 0
# hint: collective
import torch
import torch.distributed as dist


def naive_all_reduce(tensor: torch.Tensor) -> torch.Tensor:
    """The sum of all ranks' tensors, on every rank, through rank 0.

    `tensor` has the same shape and dtype on all ranks, and stays as it is. Returns a new tensor of
    that shape and dtype.
    """
    total = tensor.clone()
    ranks = range(dist.get_world_size())
    if dist.get_rank() == 0:
        arrived = [torch.empty_like(tensor) for _ in ranks]
        dist.gather(tensor, arrived, 0)
        total = torch.stack(arrived).sum(0)
        for other in ranks[1:]:
            dist.send(total, other)
    else:
        dist.gather(tensor, None, 0)
        dist.recv(total, 0)
    return total
