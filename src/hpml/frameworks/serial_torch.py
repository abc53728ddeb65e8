"""A small network on CIFAR-10 with PyTorch, in one process: where the others begin."""

import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from hpml.frameworks import task

torch.manual_seed(task.SEED)
images = task.torch_images("train")
loader = DataLoader(images, batch_size=task.BATCH, shuffle=True)
model = task.torch_network()
optimizer = torch.optim.SGD(model.parameters(), lr=task.LEARNING_RATE, momentum=0.9)

clock = task.Clock()
for _ in range(task.EPOCHS):
    for batch, labels in loader:
        optimizer.zero_grad()
        cross_entropy(model(batch), labels).backward()
        optimizer.step()
        clock.step(len(labels))

task.report(clock, task.torch_accuracy(model))
