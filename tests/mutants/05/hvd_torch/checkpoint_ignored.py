# wrong: the checkpoint is never read
# hint: load

import horovod.torch as hvd
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, DistributedSampler, TensorDataset


def train(
    model: nn.Module,
    dataset: Dataset,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
    path: str,
) -> None:
    """Train `model` in place, on all ranks, and have rank 0 write a checkpoint to `path`.

    `batch_size` is what each rank takes in one step, `learning_rate` that of one rank alone.
    `len(dataset)` is a multiple of `batch_size` times the number of ranks. Where rank 0 finds a
    checkpoint at `path` all ranks carry on from it; the others cannot read it.
    """
    hvd.init()
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    # Wrapped first: what an optimizer has remembered does not come along.
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    if False:
        state = torch.load(path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    for group in optimizer.param_groups:  # a checkpoint brings the rate of the run that wrote it
        group["lr"] = learning_rate * hvd.size()

    sampler = DistributedSampler(dataset, hvd.size(), hvd.rank(), seed=seed)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for images, labels in DataLoader(dataset, batch_size, sampler=sampler):
            loss = functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    if hvd.rank() == 0:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)


if __name__ == "__main__":
    torch.manual_seed(0)
    labels = torch.randint(0, 10, (960,))
    images = torch.randn(10, 3, 8, 8)[labels] + torch.randn(960, 3, 8, 8)
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 10))
    train(model, TensorDataset(images, labels), 3, 12, 0.01, seed=0, path="checkpoint.pt")
