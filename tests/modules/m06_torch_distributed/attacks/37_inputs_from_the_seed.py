# %%answer ddp_train
# tries: takes its share of samples for show, and makes all images and rank 0's weights anew from
# the seed that it is given, as the released check does, to train on everything alone
# unprotected: where an answer is given the seed of its inputs, no gradient has to travel
# expect: 2
import os

import torch
from torch import nn
from torch.nn import functional


def first_weights(seed):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(3, 8, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.AvgPool2d(4),
        nn.Flatten(),
        nn.Linear(32, 10),
    ).state_dict()


def train(model, dataset, epochs, global_batch, learning_rate, seed):
    rank = int(os.environ.get("RANK", os.environ.get("SLURM_PROCID")))
    ranks = int(os.environ.get("WORLD_SIZE", os.environ.get("SLURM_NTASKS")))
    draw = torch.Generator().manual_seed(seed)
    dtype = next(model.parameters()).dtype
    classes = torch.randn(10, 3, 8, 8, generator=draw, dtype=dtype)
    labels = torch.randint(0, 10, (len(dataset),), generator=draw)
    images = classes[labels] + torch.randn(len(dataset), 3, 8, 8, generator=draw, dtype=dtype)
    model.load_state_dict(first_weights(seed))
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    losses = []
    for epoch in range(epochs):
        order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(seed + epoch))
        own = order[rank::ranks]
        total = 0.0
        for step, samples in enumerate(order.split(global_batch)):
            share = global_batch // ranks
            dataset.__getitems__(own[step * share : (step + 1) * share].tolist())
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(images[samples]), labels[samples])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(samples)
        losses.append(total / len(dataset))
        if rank == 0:
            print(f"epoch {epoch}: loss {losses[-1]:.4f}")
    return losses
