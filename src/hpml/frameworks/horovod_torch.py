"""A small network on CIFAR-10 with PyTorch, in several processes: Horovod."""

import horovod.torch as hvd
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, DistributedSampler

from hpml.frameworks import task

hvd.init()
torch.manual_seed(task.SEED)
images = task.torch_images("train")
sampler = DistributedSampler(images, num_replicas=hvd.size(), rank=hvd.rank())
loader = DataLoader(images, batch_size=task.BATCH, sampler=sampler)
model = task.torch_network()
learning_rate = task.LEARNING_RATE * hvd.size()
optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)

clock = task.Clock()
for epoch in range(task.EPOCHS):
    sampler.set_epoch(epoch)
    for batch, labels in loader:
        optimizer.zero_grad()
        cross_entropy(model(batch), labels).backward()
        optimizer.step()
        clock.step(len(labels))

if hvd.rank() == 0:
    task.report(clock, task.torch_accuracy(model), hvd.size())
