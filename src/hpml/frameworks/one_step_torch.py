"""One training step in PyTorch: eager, or compiled. The layout is channels_last in both."""

import numpy as np
import torch
import torch._dynamo  # every optimizer imports it later, which takes seconds of the first step
from torch import Tensor
from torch.nn.functional import cross_entropy

from hpml.frameworks.one_step import LEARNING_RATE, MOMENTUM, Given, Running, torch_network


def eager(given: Given, compiled: bool = False) -> Running:
    """The network run line by line; with `compiled`, forward, loss and backward by torch.compile.

    The optimizer is eager in both.
    """
    network = torch_network(given).to(memory_format=torch.channels_last)
    images = torch.from_numpy(given.images).contiguous(memory_format=torch.channels_last)
    labels = torch.from_numpy(given.labels)
    learned = [p for p in network.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(learned, LEARNING_RATE, MOMENTUM)

    def loss_of(images: Tensor, labels: Tensor) -> Tensor:
        return cross_entropy(network(images), labels)

    def logits_of(images: Tensor) -> Tensor:
        return network(images)

    if compiled:
        # One graph, or an error; and made for this batch size only.
        loss_of = torch.compile(loss_of, fullgraph=True, dynamic=False)
        logits_of = torch.compile(logits_of, fullgraph=True, dynamic=False)

    def step() -> float:
        network.train()
        loss = loss_of(images, labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    def forward() -> np.ndarray:
        network.eval()
        with torch.no_grad():
            return logits_of(images).numpy()

    def weights() -> dict[str, np.ndarray]:
        values = network.state_dict()
        return {name: values[name].numpy().copy() for name in given.changed}

    return Running(forward, step, weights)


def compiled(given: Given) -> Running:
    """`eager`, by torch.compile."""
    return eager(given, compiled=True)
