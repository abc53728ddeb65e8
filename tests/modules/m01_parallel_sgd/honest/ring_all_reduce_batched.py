# %%answer ring_all_reduce
# unusual: batch_isend_irecv, a generator of steps, narrow() views, negative indices
import torch
import torch.distributed as dist


def blocks(flat, count):
    """Views of nearly equal length that together are `flat`."""
    bounds = torch.linspace(0, flat.numel(), count + 1, dtype=torch.float64).round().long().tolist()
    return [flat.narrow(0, a, b - a) for a, b in zip(bounds, bounds[1:])]


def schedule(rank, size):
    """(block to send, block that arrives, whether to add it)."""
    for k in range(size - 1):
        yield rank - k, rank - k - 1, True
    for k in range(size - 1):
        yield rank + 1 - k, rank - k, False


def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    ring = blocks(tensor.flatten() if tensor.dim() == 0 else tensor.view(-1), size)
    for out, into, adds in schedule(rank, size):
        box = torch.empty_like(ring[into % size])
        pair = [
            dist.P2POp(dist.irecv, box, (rank - 1) % size),
            dist.P2POp(dist.isend, ring[out % size], (rank + 1) % size),
        ]
        for request in dist.batch_isend_irecv(pair):
            request.wait()
        (ring[into % size].add_ if adds else ring[into % size].copy_)(box)
