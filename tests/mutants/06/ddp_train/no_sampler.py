# wrong: every rank trains on all samples
# hint: no_shard
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, TensorDataset


def train(
    model: nn.Module,
    dataset: Dataset,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
) -> list[float]:
    """Train `model` in place, on all ranks of the job, to where the serial script would take it.

    Who this rank is comes from the environment, torchrun's or srun's; MASTER_ADDR and MASTER_PORT
    are there in both. `batch_size` counts the samples of a step on all ranks together. It is a
    multiple of the number of ranks, and `len(dataset)` is a multiple of it.

    Returns for each epoch the mean loss over all samples, as a float, the same on every rank.
    Rank 0 prints it as the serial script does; the others print nothing.
    """
    if "RANK" in os.environ:
        names = "RANK", "WORLD_SIZE", "LOCAL_RANK"
    else:
        names = "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"
    rank, world_size, local_rank = (int(os.environ[name]) for name in names)
    if torch.cuda.is_available():
        device = torch.device("cuda", local_rank)
        torch.cuda.set_device(device)
        backend = "nccl"
    else:
        device, backend = torch.device("cpu"), "gloo"
    dist.init_process_group(backend, rank=rank, world_size=world_size)

    parallel = DistributedDataParallel(model.to(device))
    optimizer = torch.optim.SGD(parallel.parameters(), lr=learning_rate, momentum=0.9)
    losses = []
    for epoch in range(epochs):
        draw = torch.Generator().manual_seed(seed + epoch)
        sampler = torch.randperm(len(dataset), generator=draw).tolist()
        total = torch.zeros((), dtype=torch.float64, device=device)
        for images, labels in DataLoader(dataset, batch_size // world_size, sampler=sampler):
            images, labels = images.to(device), labels.to(device)
            loss = functional.cross_entropy(parallel(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach() * len(labels)
        dist.all_reduce(total)
        losses.append(total.item() / len(dataset))
        if rank == 0:
            print(f"epoch {epoch}: loss {losses[-1]:.4f}")
    dist.destroy_process_group()
    return losses


if __name__ == "__main__":
    torch.manual_seed(0)
    labels = torch.randint(0, 10, (960,))
    images = torch.randn(10, 3, 8, 8)[labels] + torch.randn(960, 3, 8, 8)
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 10))
    train(model, TensorDataset(images, labels), 3, batch_size=48, learning_rate=0.05, seed=0)
