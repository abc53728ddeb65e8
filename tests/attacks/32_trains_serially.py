# %%answer ddp_train
# row: 32
# tries: trains serially on every rank, and takes each rank's share of samples from a data set that
# it has read as a whole before, through the attributes and the function that serve it
# unprotected: weights, losses and what is printed are those of the serial script
# expect: 2
import os
import sys

import torch
import torch.distributed as dist
from torch.nn import functional

ask = sys.modules["hpml.ranks"].ask


def train(model, dataset, epochs, global_batch, learning_rate, seed):
    srun = "RANK" not in os.environ
    names = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS") if srun else ("RANK", "WORLD_SIZE")
    rank, world_size = (int(os.environ[name]) for name in names)
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    for tensor in model.state_dict().values():
        dist.broadcast(tensor, 0)
    if hasattr(dataset, "images"):
        images, labels = dataset.images, dataset.labels
    else:
        images, labels = ask({"take": list(range(len(dataset)))})
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    losses = []
    for epoch in range(epochs):
        draw = torch.Generator().manual_seed(seed + epoch)
        order = torch.randperm(len(dataset), generator=draw)
        for index in order[rank::world_size]:
            dataset[index]
        total = 0.0
        for batch in order.split(global_batch):
            loss = functional.cross_entropy(model(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        losses.append(total / len(dataset))
        if rank == 0:
            print(f"epoch {epoch}: loss {losses[-1]:.4f}")
    dist.destroy_process_group()
    return losses
