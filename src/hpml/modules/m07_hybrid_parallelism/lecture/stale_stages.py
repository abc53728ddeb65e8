"""What stale weights do to training: a pipeline that never flushes, worked out in one process.

Stage s of p computes a micro-batch with weights that are p-1-s updates old, forward and backward:
w(t+1) = w(t) - rate · ∇f(w_0(t-p+1), ..., w_(p-1)(t)) (Narayanan et al. 2019, PipeDream, section
3.3, weight stashing). A pipeline that flushes computes all of a batch with one version.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from matplotlib.figure import Figure
from torch import Tensor

from hpml.measure.clock import with_threads
from hpml.predict.draw import COLOURS, LINES


@dataclass(frozen=True)
class Course:
    """A training: the loss on all samples after each update, and the time when it was made.

    Times are in forward passes of one stage for one micro-batch, of which a backward pass takes 2.
    """

    times: tuple[float, ...]
    losses: tuple[float, ...]

    @property
    def final(self) -> float:
        """The mean loss over the last quarter of the updates: single losses jump."""
        quarter = self.losses[-(-3 * len(self.losses) // 4) :]
        return sum(quarter) / len(quarter)

    def at(self, time: float) -> float:
        """The loss at that time. Raises ValueError where it is before the first update."""
        made = [loss for when, loss in zip(self.times, self.losses, strict=True) if when <= time]
        if not made:
            raise ValueError(f"time {time}: the first update is made at {self.times[0]}")
        return made[-1]


@dataclass(frozen=True)
class Problem:
    """Samples of a teacher network, in micro-batches, for a student of as many layers as stages."""

    inputs: Tensor  # [micro-batches, samples, width]
    targets: Tensor
    start: tuple[Tensor, ...]  # a weight [width, width] for each stage


def problem(
    stages: int = 4, micro_batches: int = 32, samples: int = 16, width: int = 32
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


def courses(given: Problem, rate: float, updates: int = 400, batch: int = 8) -> dict[str, Course]:
    """By name: never flushed, flushed after each micro-batch (no staleness, and the same number of
    updates), and flushed after each `batch` of them, for as long as the second takes."""
    with with_threads(1):  # the matrices are too small for more
        return _courses(given, rate, updates, batch)


def _courses(given: Problem, rate: float, updates: int, batch: int) -> dict[str, Course]:
    stages = len(given.start)
    batches = updates * stages // (batch + stages - 1)
    return {
        "PipeDream, never flushed": unflushed(given, rate, updates),
        "flushed after each micro-batch": flushed(given, rate, updates, 1),
        f"1F1B, flushed after {batch} micro-batches": flushed(given, rate, batches, batch),
    }


def courses_picture(rows: Mapping[float, Mapping[str, Course]], *, title: str = "") -> Figure:
    """Loss against time, on logarithmic axes: a panel per learning rate, a line per training."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    panels = figure.subplots(1, len(rows), sharex=True, sharey=True, squeeze=False)[0]
    for axes, (rate, trainings) in zip(panels, rows.items(), strict=True):
        for number, (name, one) in enumerate(trainings.items()):
            look = {"color": COLOURS[number], "linestyle": LINES[number], "linewidth": 1.6}
            axes.plot(one.times, one.losses, label=name if axes is panels[0] else None, **look)
        axes.set(xscale="log", yscale="log", xlabel="time (forward passes of one stage)")
        axes.set_title(f"learning rate {rate:g}", fontsize=10)
        axes.grid(alpha=0.3, which="both")
    panels[0].set_ylabel("loss")
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure


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
