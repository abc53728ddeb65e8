"""What stale weights do to training: a pipeline that never flushes, worked out in one process.

Stage s of p computes a micro-batch with weights that are p-1-s updates old, forward and backward:
w(t+1) = w(t) - rate · ∇f(w_0(t-p+1), ..., w_(p-1)(t)) (Narayanan et al. 2019, PipeDream, section
3.3, weight stashing). A pipeline that flushes computes all of a batch with one version.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Course:
    """A training: the loss on all samples after each update, and the time when it was made.

    Times are in forward passes of one stage for one micro-batch, of which a backward pass takes 2.
    """

    times: tuple[float, ...]
    losses: tuple[float, ...]

    def reached(self, loss: float) -> float:
        """The first time with that loss or less; infinity where it is never reached."""
        found = (at for at, seen in zip(self.times, self.losses, strict=True) if seen <= loss)
        return next(found, torch.inf)


@dataclass(frozen=True)
class Problem:
    """Samples of a teacher network, in micro-batches, for a student of as many layers as stages."""

    inputs: Tensor  # [micro-batches, samples, width]
    targets: Tensor
    start: tuple[Tensor, ...]  # a weight [width, width] for each stage


def problem(
    stages: int = 4, micro_batches: int = 32, samples: int = 16, width: int = 16
) -> Problem:
    """A teacher and a student of `stages` layers each, tanh in between; always the same ones."""
    draw = torch.Generator().manual_seed(0)
    inputs = torch.randn(micro_batches, samples, width, generator=draw)
    scale = width**-0.5
    teacher = [torch.randn(width, width, generator=draw) * scale for _ in range(stages)]
    start = [torch.randn(width, width, generator=draw) * scale for _ in range(stages)]
    return Problem(inputs, _through(teacher, inputs), tuple(start))


def flushed(given: Problem, rate: float, updates: int, micro_batches: int) -> Course:
    """One update after each `micro_batches`, with their mean gradient, then the pipeline drains.

    Each takes (m + p - 1) forward and backward passes' time, m micro-batches on p stages.
    """
    period = 3.0 * (micro_batches + len(given.start) - 1)
    return _train(given, rate, updates, micro_batches, [0] * len(given.start), period, period)


def unflushed(given: Problem, rate: float, updates: int) -> Course:
    """PipeDream: an update after each micro-batch, as soon as it has been through the pipeline."""
    stages = len(given.start)
    stale = [stages - 1 - stage for stage in range(stages)]
    return _train(given, rate, updates, 1, stale, 3.0 * stages, 3.0)


def _train(
    given: Problem,
    rate: float,
    updates: int,
    micro_batches: int,
    stale: Sequence[int],
    first: float,
    period: float,
) -> Course:
    """`stale[s]`: how many updates older the weights of stage s are that a gradient belongs to."""
    versions = [[weight.clone()] for weight in given.start]
    losses, count = [], len(given.inputs)
    for update in range(updates):
        which = [(update * micro_batches + k) % count for k in range(micro_batches)]
        used = [
            history[max(0, len(history) - 1 - age)].clone().requires_grad_()
            for history, age in zip(versions, stale, strict=True)
        ]
        loss = (_through(used, given.inputs[which]) - given.targets[which]).square().mean()
        gradients = torch.autograd.grad(loss, used)
        for history, gradient in zip(versions, gradients, strict=True):
            history.append(history[-1] - rate * gradient)
        newest = [history[-1] for history in versions]
        losses.append((_through(newest, given.inputs) - given.targets).square().mean().item())
    times = tuple(first + period * update for update in range(updates))
    return Course(times, tuple(losses))


def _through(weights: Sequence[Tensor], inputs: Tensor) -> Tensor:
    for weight in weights[:-1]:
        inputs = torch.tanh(inputs @ weight)
    return inputs @ weights[-1]
