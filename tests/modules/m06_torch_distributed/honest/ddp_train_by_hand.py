# %%answer ddp_train
# unusual: gradients averaged by hand, a batch sampler of its own, functools and contextlib, no DDP
import os
from contextlib import contextmanager
from functools import partial, reduce

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.utils.data import DataLoader


@contextmanager
def job():
    get = lambda *names: next(int(os.environ[name]) for name in names if name in os.environ)
    rank, size = get("RANK", "SLURM_PROCID"), get("WORLD_SIZE", "SLURM_STEP_NUM_TASKS")
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(get("LOCAL_RANK", "SLURM_LOCALID"))
    store = dist.TCPStore(
        os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), size, is_master=rank == 0
    )
    dist.init_process_group("nccl" if cuda else "gloo", store=store, rank=rank, world_size=size)
    try:
        yield rank, size, torch.device("cuda" if cuda else "cpu")
    finally:
        dist.destroy_process_group()


class Shares:
    """Batches of this rank: the next ones of the serial order, in blocks."""

    def __init__(self, length, batch, rank, size, seed):
        self.of = partial(torch.randperm, length)
        self.batch, self.rank, self.size, self.seed, self.epoch = batch, rank, size, seed, 0

    def __len__(self):
        return len(self.of()) // self.batch

    def __iter__(self):
        order = self.of(generator=torch.Generator().manual_seed(self.seed + self.epoch))
        for batch in order.split(self.batch):
            yield batch[self.rank :: self.size].tolist()
        self.epoch += 1


def train(model, dataset, epochs, global_batch, learning_rate, seed):
    losses = []
    with job() as (rank, size, device):
        model.to(device)
        for tensor in model.state_dict().values():
            dist.broadcast(tensor, 0)
        optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
        loader = DataLoader(
            dataset, batch_sampler=Shares(len(dataset), global_batch, rank, size, seed)
        )
        for epoch in range(epochs):
            parts = []
            for images, labels in loader:
                model.zero_grad()
                loss = F.cross_entropy(model(images.to(device)), labels.to(device), reduction="sum")
                (loss / global_batch).backward()
                works = [dist.all_reduce(p.grad, async_op=True) for p in model.parameters()]
                parts.append(loss.detach().double())
                for work in works:
                    work.wait()
                optimizer.step()
            total = reduce(torch.add, parts)
            dist.all_reduce(total)
            losses.append(float(total) / len(dataset))
            if not rank:
                print("epoch %d: loss %.4f" % (epoch, losses[-1]))
    return losses


if __name__ == "__main__":
    raise SystemExit("import me")
