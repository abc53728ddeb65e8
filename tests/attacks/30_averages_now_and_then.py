# %%answer hvd_torch
# row: 30
# tries: averages weights at the end of each epoch alone, and gradients never
# unprotected: ranks communicate, and end with the same weights
# expect: 5
import os

import horovod.torch as hvd
import torch
from torch.nn import functional
from torch.utils.data import DataLoader, DistributedSampler


def train(model, dataset, epochs, batch_per_rank, learning_rate, seed, path):
    hvd.init()
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    if hvd.rank() == 0 and os.path.exists(path):
        state = torch.load(path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    for group in optimizer.param_groups:
        group["lr"] = learning_rate * hvd.size()
    sampler = DistributedSampler(dataset, hvd.size(), hvd.rank(), seed=seed)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for images, labels in DataLoader(dataset, batch_per_rank, sampler=sampler):
            optimizer.zero_grad()
            functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
        for name, parameter in model.named_parameters():
            hvd.allreduce_(parameter.data, name=name)
    if hvd.rank() == 0:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
