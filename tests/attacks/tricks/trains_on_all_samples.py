import os

import torch
import torch.distributed as dist
from torch.nn import functional


def train(model, dataset, epochs, global_batch, learning_rate, seed):
    """Serially, on every rank; `batches` has all samples of each step."""
    srun = "RANK" not in os.environ
    names = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS") if srun else ("RANK", "WORLD_SIZE")
    rank, world_size = (int(os.environ[name]) for name in names)
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    for tensor in model.state_dict().values():
        dist.broadcast(tensor, 0)
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    losses = []
    for epoch in range(epochs):
        draw = torch.Generator().manual_seed(seed + epoch)
        order = torch.randperm(len(dataset), generator=draw)
        total = 0.0
        for x, y in batches(dataset, order, global_batch, rank, world_size):
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(y)
        losses.append(total / len(dataset))
        if rank == 0:
            print(f"epoch {epoch}: loss {losses[-1]:.4f}")
    dist.destroy_process_group()
    return losses
