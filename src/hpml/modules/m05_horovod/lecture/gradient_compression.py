"""Horovod's compression of gradients: the bytes that it saves, and the loss with it."""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import nn

from hpml.ranks import launch

STEPS = 8


@dataclass(frozen=True)
class Training:
    """Eight steps of a small network on two ranks.

    `losses`: of each step, the mean of the ranks. `sent`: MB that rank 0 sent; None where this
    machine cannot emulate a network.
    """

    losses: tuple[float, ...]
    sent: float | None


def train(compression: str) -> Training:
    """Train over links of 100 Mbit/s, with `hvd.Compression` of that name: "none" or "fp16"."""
    evidence = launch(partial(_losses, compression), 2, flavour="horovod", link="100mbit")
    traffic = evidence.ranks[0].traffic
    return Training(tuple(evidence.values[0]), traffic.sent_bytes / 1e6 if traffic else None)


class Saved(NamedTuple):
    """The share of the bytes that is sent with compression; how far apart the last losses are."""

    share: float
    apart: float

    @property
    def held(self) -> bool:
        """Half the bytes, and the same loss."""
        return 0.49 < self.share < 0.6 and self.apart < 0.01


def saved(plain: Training, fp16: Training) -> Saved:
    """Both where a network can be emulated."""
    return Saved(fp16.sent / plain.sent, abs(fp16.losses[-1] - plain.losses[-1]))


def _losses(compression: str) -> list[float]:
    """On a rank."""
    import horovod.torch as hvd

    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1),
        model.named_parameters(),
        compression=getattr(hvd.Compression, compression),
    )
    torch.manual_seed(hvd.rank())
    images, labels = torch.randn(256, 64), torch.randint(0, 10, (256,))
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(hvd.allreduce(loss.detach(), name="loss").item())
    return losses
