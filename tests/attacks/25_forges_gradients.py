# %%answer ddp_train
# row: 25
# tries: gathers all samples with its recorder removed, trains serially on them, and reports
# all-reduces of gradients that would have been as many bytes
# unprotected: samples, weights and losses are right, and calls and traffic agree
# expect: 0
import os
import sys

import torch
import torch.distributed as dist
from torch.nn import functional

recorder = sys.modules["hpml.ranks.recorder"]
Carried = sys.modules["hpml.ranks.sizes"].Carried


def gathered(mine):
    """All ranks' rows, (ranks * n, columns); reported as all-reduces of gradients."""
    size = dist.get_world_size()
    mine, own = mine.contiguous(), recorder._recorder
    parts = [torch.empty_like(mine) for _ in range(size)]
    recorder._recorder = None
    dist.all_gather(parts, mine)
    recorder._recorder = own
    nbytes = size * mine.nbytes // 2 // 8 * 8
    shape = Carried("float64", (nbytes // 8,), nbytes)
    own.finish(own.enter("all_reduce", tuple(range(size)), detail="sum", carried=shape))
    return torch.stack(parts, 1).flatten(0, 1)


def train(model, dataset, epochs, global_batch, learning_rate, seed):
    srun = "RANK" not in os.environ
    names = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS") if srun else ("RANK", "WORLD_SIZE")
    rank, world_size = (int(os.environ[name]) for name in names)
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    for tensor in model.state_dict().values():
        dist.broadcast(tensor, 0)
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    losses = []
    for epoch in range(epochs):
        draw = torch.Generator().manual_seed(seed + epoch)
        total = 0.0
        for batch in torch.randperm(len(dataset), generator=draw).split(global_batch):
            took = [dataset[int(index)] for index in batch[rank::world_size]]
            rows = torch.stack([torch.cat([x.flatten(), y.double().view(1)]) for x, y in took])
            rows = gathered(rows) if world_size > 1 else rows
            x, y = rows[:, :-1].reshape(-1, 3, 8, 8), rows[:, -1].long()
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(y)
        losses.append(total / len(dataset))
        if rank == 0:
            print(f"epoch {epoch}: loss {losses[-1]:.4f}")
    dist.destroy_process_group()
    return losses
