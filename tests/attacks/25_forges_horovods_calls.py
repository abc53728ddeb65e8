# %%answer hvd_torch
# row: 25
# tries: gathers all samples by Horovod's library itself, past what records its calls, and trains
# serially on them; reports the all-reduces of gradients that a right answer makes
# unprotected: samples and weights are right, and so are the calls, in the rank's own word
# expect: 5
import os
import sys

import horovod.torch as hvd
import torch
from horovod.torch import mpi_ops
from torch.nn import functional

recorder = sys.modules["hpml.ranks.recorder"]
Carried = sys.modules["hpml.ranks.sizes"].Carried


def gathered(mine):
    """All ranks' rows, in the order in which they are dealt out."""
    recording, rows = mpi_ops.mpi_lib, mine.contiguous()
    mpi_ops.mpi_lib = getattr(recording, "_library", recording)
    try:
        found = hvd.allgather(rows, name="rows")
    finally:
        mpi_ops.mpi_lib = recording
    return found.view(hvd.size(), *rows.shape).transpose(0, 1).flatten(0, 1)


def report(name, tensor):
    own = recorder._recorder
    carried = Carried("float64", tuple(tensor.shape), tensor.nbytes)
    ranks = tuple(range(hvd.size()))
    own.finish(
        own.enter("allreduce", ranks, detail="average", tensor=f"allreduce.{name}", carried=carried)
    )


def train(model, dataset, epochs, batch_per_rank, learning_rate, seed, path):
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate * size, momentum=0.9)
    if rank == 0 and os.path.exists(path):
        state = torch.load(path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    for group in optimizer.param_groups:
        group["lr"] = learning_rate * size
    for epoch in range(epochs):
        draw = torch.Generator().manual_seed(seed + epoch)
        for batch in torch.randperm(len(dataset), generator=draw).split(batch_per_rank * size):
            took = [dataset[int(index)] for index in batch[rank::size]]
            shape = took[0][0].shape
            rows = torch.stack([torch.cat([x.flatten(), y.double().view(1)]) for x, y in took])
            rows = gathered(rows) if size > 1 else rows
            x, y = rows[:, :-1].reshape(-1, *shape), rows[:, -1].long()
            optimizer.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            for name, parameter in model.named_parameters():
                report(name, parameter)
            optimizer.step()
    if rank == 0:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
