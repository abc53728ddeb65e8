# %%answer ddp_train
# unusual: a loader with worker processes that are kept, seeded and given batches of numpy indices
import os
import random

import numpy as np
import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, get_worker_info


def seed_worker(number):
    info = get_worker_info()
    assert info.id == number
    random.seed(info.seed % 2**32)
    np.random.seed(info.seed % 2**32)


class Batches:
    def __init__(self, length, global_batch, rank, ranks, seed):
        self.length, self.global_batch, self.seed = length, global_batch, seed
        self.rank, self.ranks, self.epoch = rank, ranks, 0

    def __iter__(self):
        draw = torch.Generator().manual_seed(self.seed + self.epoch)
        order = torch.randperm(self.length, generator=draw).numpy()
        for start in range(0, self.length, self.global_batch):
            yield order[start : start + self.global_batch][self.rank :: self.ranks]

    def __len__(self):
        return self.length // self.global_batch


def train(model, dataset, epochs, global_batch, learning_rate, seed):
    srun = "RANK" not in os.environ
    rank = int(os.environ["SLURM_PROCID" if srun else "RANK"])
    ranks = int(os.environ["SLURM_STEP_NUM_TASKS" if srun else "WORLD_SIZE"])
    local = int(os.environ["SLURM_LOCALID" if srun else "LOCAL_RANK"])
    device = torch.device("cuda", local) if torch.cuda.is_available() else torch.device("cpu")
    dist.init_process_group(
        "nccl" if device.type == "cuda" else "gloo", rank=rank, world_size=ranks
    )
    batches = Batches(len(dataset), global_batch, rank, ranks, seed)
    loader = DataLoader(
        dataset,
        batch_sampler=batches,
        num_workers=2,
        prefetch_factor=2,
        worker_init_fn=seed_worker,
    )
    wrapped = DistributedDataParallel(model.to(device))
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=learning_rate, momentum=0.9)
    losses = []
    for epoch in range(epochs):
        batches.epoch = epoch
        total = torch.zeros(1, dtype=torch.float64, device=device)
        for images, labels in loader:
            optimizer.zero_grad()
            loss = functional.cross_entropy(wrapped(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            total += loss.detach() * len(labels)
        dist.all_reduce(total)
        losses.append((total / len(dataset)).item())
        if rank == 0:
            print(f"epoch {epoch}: loss {losses[-1]:.4f}")
    dist.destroy_process_group()
    return losses
