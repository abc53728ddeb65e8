# %%answer hvd_torch
# tries: trains serially on every rank with the model's parameters alone, and calls the model on
# each rank's share of the samples for show
# unprotected: the weights before each step are the serial script's, with no gradient averaged
# expect: 2
import os
import sys

import horovod.torch as hvd
import torch
from torch.func import functional_call
from torch.nn import functional

ask = sys.modules["hpml.ranks"].ask


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
    if hasattr(dataset, "images"):
        images, labels = dataset.images, dataset.labels
    else:
        images, labels = ask({"take": list(range(len(dataset)))})
    hooks = dict(model._forward_pre_hooks)
    for epoch in range(epochs):
        draw = torch.Generator().manual_seed(seed + epoch)
        order = torch.randperm(len(dataset), generator=draw)
        for batch in order.split(batch_per_rank * size):
            for index in batch[rank::size]:
                dataset[index]
            for hook in hooks.values():
                hook(model, None)
            model._forward_pre_hooks.clear()
            loss = functional.cross_entropy(
                functional_call(model, {}, images[batch]), labels[batch]
            )
            model._forward_pre_hooks.update(hooks)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    if rank == 0:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
