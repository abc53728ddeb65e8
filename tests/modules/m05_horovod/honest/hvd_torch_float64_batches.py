# %%answer hvd_torch
# unusual: float64 is the default dtype; a Subset and a BatchSampler; the file appears under its name
import contextlib
import os
import tempfile

import horovod.torch as hvd
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Subset

torch.set_default_dtype(torch.float64)


@contextlib.contextmanager
def written(path):
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(path) or ".", delete=False) as file:
        yield file
    os.replace(file.name, path)


def train(model, dataset, epochs, batch_per_rank, learning_rate, seed, path):
    hvd.init()
    assert hvd.is_initialized()
    rate = learning_rate * hvd.size()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), rate, 0.9), model.named_parameters(), op=hvd.Average
    )
    if hvd.rank() == 0:
        with contextlib.suppress(FileNotFoundError):
            found = torch.load(path)
            model.load_state_dict(found["model"])
            optimizer.load_state_dict(found["optimizer"])
    hvd.broadcast_optimizer_state(optimizer, 0)
    hvd.broadcast_parameters(list(model.named_parameters()), 0)
    for group in optimizer.param_groups:
        group["lr"] = rate

    criterion = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        order = torch.randperm(len(dataset), generator=torch.manual_seed(seed + epoch)).tolist()
        mine = Subset(dataset, order[hvd.rank() :: hvd.size()])
        batches = BatchSampler(range(len(mine)), batch_per_rank, drop_last=False)
        for x, y in DataLoader(mine, batch_sampler=batches):
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
    if hvd.rank() == 0:
        with written(path) as file:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
