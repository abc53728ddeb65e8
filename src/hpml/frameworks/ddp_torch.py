"""A small network on CIFAR-10 with PyTorch, in several processes: torch.distributed and DDP."""

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from hpml.frameworks import task

dist.init_process_group("gloo")
torch.manual_seed(task.SEED)
images = task.torch_images("train")
sampler = DistributedSampler(images)
loader = DataLoader(images, batch_size=task.BATCH, sampler=sampler)
model = DistributedDataParallel(task.torch_network())
learning_rate = task.LEARNING_RATE * dist.get_world_size()
optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)

clock = task.Clock()
for epoch in range(task.EPOCHS):
    sampler.set_epoch(epoch)
    for batch, labels in loader:
        optimizer.zero_grad()
        cross_entropy(model(batch), labels).backward()
        optimizer.step()
        clock.step(len(labels))

if dist.get_rank() == 0:
    task.report(clock, task.torch_accuracy(model), dist.get_world_size())
dist.barrier()  # Python must not end while a thread of Gloo still lets go of a tensor
dist.destroy_process_group()
