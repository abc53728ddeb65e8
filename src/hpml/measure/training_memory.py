"""What a training step takes of memory, by kind: three networks, measured over the batch size."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from hpml.models import ResidualNetwork, VisionTransformer
from hpml.ranks import launch

NETWORKS = ("residual network", "vision transformer", "MLP")
BATCHES = (16, 48, 96)
SIZE, CLASSES, WIDTH = 32, 10, 1024  # of an image, and of the MLP


@dataclass(frozen=True)
class Taken:
    """One training: its batch, how many parameters the network has, and the bytes at the peak.

    `by_kind` has parameters, gradients, optimizer states, activations and other tensors, as
    `RankEvidence.live.at_peak`, and "workspace": what the kernel counted besides tensors, as
    libraries and Python take it. `peak` is all of it. `whole_forward`: at the peak there were
    nearly as many activations as there ever were.
    """

    batch: int
    parameters: int
    by_kind: dict[str, int]
    peak: int
    whole_forward: bool = True


def build(name: str) -> nn.Module:
    """One of NETWORKS, with the same weights each time; for 3 × 32 × 32 images."""
    torch.manual_seed(0)
    if name == "residual network":
        return ResidualNetwork()
    if name == "vision transformer":
        return VisionTransformer.of_size("small", depth=4)
    layers: list[nn.Module] = [nn.Flatten(), nn.Linear(3 * SIZE**2, WIDTH), nn.ReLU()]
    for _ in range(2):
        layers += [nn.Linear(WIDTH, WIDTH), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(WIDTH, CLASSES))


def train(name: str, batch: int, steps: int = 2) -> int:
    """Train with Adam on random images, gradients kept between steps; returns the number of
    parameters."""
    model = build(name)
    optimizer = torch.optim.Adam(model.parameters())
    images, labels = torch.randn(batch, 3, SIZE, SIZE), torch.randint(0, CLASSES, (batch,))
    for _ in range(steps):
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    return sum(parameter.numel() for parameter in model.parameters())


def measure(
    names: Sequence[str] = NETWORKS, batches: Sequence[int] = BATCHES
) -> dict[str, list[Taken]]:
    """Train each network with each batch, on a rank of its own.

    Without a kernel that counts a rank's memory there is no workspace, and the peak is that of
    tensors. Raises RuntimeError where a training fails.
    """
    return {name: [_measured(name, batch) for batch in batches] for name in names}


def _measured(name: str, batch: int) -> Taken:
    drive = partial(train, name, batch)
    evidence = launch(drive, 1, process_group=False, live=True, count_memory=True)
    if evidence.diagnosis is not None:
        raise RuntimeError(f"{name}, batch {batch}: {evidence.diagnosis.sentence}")
    (rank,) = evidence.ranks
    tensors = rank.live.peak
    peak = max(tensors, rank.peak_bytes or 0)
    by_kind = {**rank.live.at_peak, "workspace": peak - tensors}
    there, ever = rank.live.at_peak["activations"], rank.live.highest["activations"]
    return Taken(batch, rank.value, by_kind, peak, there > 0.9 * ever)


def fits(name: str, batch: int, memory: int) -> bool:
    """Whether a rank that may use `memory` bytes, and no more, can train with this batch.

    Raises RuntimeError where the training fails for another reason, or no limit can be set.
    """
    evidence = launch(partial(train, name, batch), 1, process_group=False, memory=memory)
    if not evidence.limited:
        raise RuntimeError("this system can limit the memory of no process")
    diagnosis = evidence.diagnosis
    if diagnosis is not None and diagnosis.kind != "memory":
        raise RuntimeError(f"{name}, batch {batch}: {diagnosis.sentence}")
    return diagnosis is None
