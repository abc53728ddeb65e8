"""A small network on CIFAR-10 with PyTorch and Horovod, which goes on when a worker is lost."""

import horovod.torch as hvd
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from hpml.frameworks import task

hvd.init()
torch.manual_seed(task.SEED)
images = task.torch_images("train")
sampler = hvd.elastic.ElasticSampler(images)
loader = DataLoader(images, batch_size=task.BATCH, sampler=sampler)
model = task.torch_network()
optimizer = torch.optim.SGD(model.parameters(), lr=task.LEARNING_RATE, momentum=0.9)
optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())


@hvd.elastic.run
def train(state: hvd.elastic.TorchState) -> None:
    """Called anew, with the state of the last commit, whenever workers come or go."""
    task.say(hvd.rank(), f"workers: {hvd.size()}, from step {state.step}")
    while state.epoch < task.EPOCHS:
        state.sampler.set_epoch(state.epoch)
        for number, (batch, labels) in enumerate(loader):
            optimizer.zero_grad()
            loss = cross_entropy(model(batch), labels)
            loss.backward()
            optimizer.step()
            state.sampler.record_batch(number, task.BATCH)
            state.step += 1
            if state.step % 10 == 0:
                state.commit()
                task.say(hvd.rank(), f"step {state.step}: committed")
        state.epoch += 1
        state.commit()


state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, epoch=0, step=0)
train(state)
task.say(hvd.rank(), f"workers: {hvd.size()}, done after step {state.step}")
