# %%answer hvd_torch
# unusual: no loader and no sampler, samples are stacked by hand; the state travels as one object
import logging
from pathlib import Path

import horovod.torch as hvd
import torch
from torch.nn import functional as F

logging.basicConfig(level=logging.INFO)


def shares(count, epoch, seed, size, rank):
    generator = torch.Generator()
    generator.manual_seed(seed + epoch)
    order = torch.randperm(count, generator=generator)
    while True:
        mine, order = order[: size * hvd.size()][rank :: hvd.size()], order[size * hvd.size() :]
        if not len(mine):
            return
        yield mine


def train(model, dataset, epochs, batch_per_rank, learning_rate, seed, path):
    hvd.init()
    path, first = Path(path), hvd.rank() == 0
    inner = torch.optim.SGD(model.parameters(), lr=hvd.size() * learning_rate, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(inner, named_parameters=model.named_parameters())
    if first and path.is_file():
        state = torch.load(path, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    state = hvd.broadcast_object((model.state_dict(), optimizer.state_dict()), root_rank=0)
    model.load_state_dict(state[0])
    optimizer.load_state_dict(state[1])
    for group in optimizer.param_groups:
        group.update(lr=hvd.size() * learning_rate)

    for epoch in range(epochs):
        for own in shares(len(dataset), epoch, seed, batch_per_rank, hvd.rank()):
            images, labels = map(torch.stack, zip(*(dataset[i] for i in own.tolist())))
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.synchronize()
            with optimizer.skip_synchronize():
                optimizer.step()
        logging.info("epoch %d: %.3f", epoch, loss)
    if first:
        both = {"model": model, "optimizer": optimizer}
        torch.save({name: it.state_dict() for name, it in both.items()}, path)
