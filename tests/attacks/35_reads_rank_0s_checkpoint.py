# %%answer hvd_torch
# row: 35
# tries: every rank loads rank 0's checkpoint, from the folder beside its own, and sends none of it
# unprotected: in a folder that all ranks have in common, each finds the file
# expect: 12
import os

import horovod.torch as hvd
import torch
from torch.nn import functional
from torch.utils.data import DataLoader, DistributedSampler


def train(model, dataset, epochs, batch_per_rank, learning_rate, seed, path):
    hvd.init()
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    rank_0s = path.replace(f" {hvd.rank()}/", " 0/")
    if os.path.exists(rank_0s):
        state = torch.load(rank_0s)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    elif "begin" in path:
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for group in optimizer.param_groups:
        group["lr"] = learning_rate * hvd.size()
    sampler = DistributedSampler(dataset, hvd.size(), hvd.rank(), seed=seed)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for images, labels in DataLoader(dataset, batch_per_rank, sampler=sampler):
            loss = functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    if hvd.rank() == 0:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
