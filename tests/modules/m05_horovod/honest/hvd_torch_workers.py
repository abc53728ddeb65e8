# %%answer hvd_torch
# unusual: worker processes for the loader, indices are numpy's, the state is read from bytes
import io
import os

import horovod.torch as hvd
import numpy as np
import torch
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Shuffled(Dataset):
    """A view of a data set in another order, as samplers would give it."""

    def __init__(self, of, order):
        self.of, self.order = of, np.asarray(order)

    def __len__(self):
        return len(self.order)

    def __getitem__(self, index):
        return self.of[self.order[index]]


def train(model, dataset, epochs, batch_per_rank, learning_rate, seed, path):
    hvd.init()
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate * hvd.size(), momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    if hvd.rank() == 0 and os.path.exists(path):
        with open(path, "rb") as file:
            state = torch.load(io.BytesIO(file.read()))
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    for group in optimizer.param_groups:
        group["lr"] = learning_rate * hvd.size()

    sampler = DistributedSampler(
        dataset, num_replicas=hvd.size(), rank=hvd.rank(), shuffle=True, seed=seed
    )
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        mine = Shuffled(dataset, list(sampler))
        loader = DataLoader(mine, batch_size=batch_per_rank, shuffle=False, num_workers=1)
        for images, labels in loader:
            optimizer.zero_grad()
            functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
    if hvd.rank() == 0:
        memory = io.BytesIO()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, memory)
        with open(path, "wb") as file:
            file.write(memory.getvalue())
