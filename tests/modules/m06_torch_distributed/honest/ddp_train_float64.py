# %%answer ddp_train
# unusual: float64 is the default dtype; env://, DDP's other options, a bar on stderr, numpy means
import os
import sys

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler
from tqdm import tqdm

torch.set_default_dtype(torch.float64)


def train(model, dataset, epochs, global_batch, learning_rate, seed):
    for name, other in {
        "RANK": "SLURM_PROCID",
        "WORLD_SIZE": "SLURM_STEP_NUM_TASKS",
        "LOCAL_RANK": "SLURM_LOCALID",
    }.items():
        os.environ.setdefault(name, os.environ.get(other, ""))
    gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if gpu else "gloo", init_method="env://")
    device = torch.device(f"cuda:{os.environ['LOCAL_RANK']}" if gpu else "cpu")
    ddp = DDP(model.to(device), gradient_as_bucket_view=True, static_graph=True)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=learning_rate, momentum=0.9, foreach=True)
    sampler = DistributedSampler(dataset, seed=seed)
    loader = DataLoader(dataset, global_batch // dist.get_world_size(), sampler=sampler)
    criterion = nn.CrossEntropyLoss()
    history = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        losses = []
        for x, y in tqdm(loader, file=sys.stderr, disable=dist.get_rank() != 0):
            loss = criterion(ddp(x.to(device)), y.to(device))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        everybody = [None] * dist.get_world_size()
        dist.all_gather_object(everybody, np.mean(losses))
        history.append(np.mean(everybody))
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: loss {history[-1]:.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()
    return history
