"""Training with gradients in float16: which of them become zero, and what scaling the loss does.

The sums of a step are float32 here, and every gradient is rounded to float16 as it is passed on to
the layer below, as if it were stored so. Weights and their update are float32 (Micikevicius et al.
2018, Mixed Precision Training, arXiv:1710.03740, sections 3.1 and 3.2).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn import functional as F

from hpml.data import load, normalize
from hpml.measure.clock import with_threads
from hpml.models import ResidualNetwork, whitening_filters
from hpml.modules.m02_hardware.lecture.number_formats import FLOAT16
from hpml.trace.layout import PALETTE

STEPS, BATCH, LEARNING_RATE = 24, 125, 0.1
WIDTHS = (16, 32, 64)
SIZE = 24  # of the images' middle that the network sees
POWERS = (-16, -12, -8, -4, 0, 8, 16, 24)  # of 2: factors for the loss
LAST = 8  # steps whose mean loss counts
SAME = 0.01  # of the loss: two runs that differ by less are said to be alike


@dataclass(frozen=True)
class Run:
    """`losses`, not scaled, of each step; `skipped`: steps with a gradient that was not finite.

    `gradients` are those of the layers' outputs in the last step, without exact zeros, not scaled:
    as max pooling passes most gradients on as 0.
    """

    losses: list[float]
    skipped: int
    gradients: Tensor

    @property
    def loss(self) -> float:
        """The mean over the last steps."""
        return sum(self.losses[-LAST:]) / LAST

    def lost(self, scale: float = 1.0) -> float:
        """The share of the gradients that float16 makes zero if the loss is scaled."""
        return ((self.gradients * scale).half() == 0).float().mean().item()


def train(scale: float | None = None, steps: int = STEPS) -> Run:
    """Train the course's network, made small, with the loss times `scale` and float16 gradients.

    None: with float32 gradients. The gradients of the weights are divided by `scale` again; where
    one of them is not finite, the step is skipped, as GradScaler does. The same images, order and
    first weights in every run, on one thread. Raises UserError where there are no images.
    """
    with with_threads(1):
        return _train(scale, *_images(steps))


def _train(scale: float | None, images: Tensor, labels: Tensor) -> Run:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = ResidualNetwork(WIDTHS, whitening=whitening_filters(images[:1000]))
    network.to(memory_format=torch.channels_last)
    seen: list[Tensor] = []
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d | nn.BatchNorm2d | nn.Linear):
            layer.register_forward_hook(lambda _, __, output: _watch(output, seen, scale))
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=LEARNING_RATE, momentum=0.9)
    losses, skipped = [], 0
    for batch, truth in zip(images.split(BATCH), labels.split(BATCH), strict=True):
        seen.clear()
        loss = F.cross_entropy(network(batch), truth)
        losses.append(loss.item())
        optimizer.zero_grad()
        (loss * (scale or 1.0)).backward()
        if scale is not None:
            for parameter in trained:
                parameter.grad = parameter.grad.half().float() / scale
        if all(parameter.grad.isfinite().all() for parameter in trained):
            optimizer.step()
        else:
            skipped += 1
    flat = torch.cat([gradient.flatten() for gradient in seen]) / (scale or 1.0)
    return Run(losses, skipped, flat[flat != 0])


def _images(steps: int) -> tuple[Tensor, Tensor]:
    of, edge = load().train, (32 - SIZE) // 2
    pixels = torch.from_numpy(of.images[: steps * BATCH])[..., edge:-edge, edge:-edge]
    labels = torch.from_numpy(of.labels[: steps * BATCH])
    return normalize(pixels.contiguous(), channels_last=True), labels


def _watch(output: Tensor, seen: list[Tensor], scale: float | None) -> Tensor:
    if not output.requires_grad:
        return output
    if scale is not None:
        output = _Float16Gradient.apply(output)
    output.register_hook(lambda gradient: seen.append(gradient))
    return output


class _Float16Gradient(torch.autograd.Function):
    """The identity; its gradient is rounded to float16, and inf where that ends."""

    @staticmethod
    def forward(ctx: Any, given: Tensor) -> Tensor:
        return given.view_as(given)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient.half().float()


def by_scale() -> dict[float | None, Run]:
    """A run for each loss scale, and under None the one with float32 gradients."""
    return {scale: train(scale) for scale in (None, *(2.0**power for power in POWERS))}


def picture(runs: Mapping[float | None, Run], shown: float, *, title: str = "") -> Figure:
    """The gradients' sizes beside float16's range, as they are and times `shown`; and the loss of
    training against the loss scale."""
    figure = Figure(figsize=(9.5, 3.6), layout="constrained")
    sizes, loss = figure.subplots(1, 2, width_ratios=(5, 4))
    exponents = runs[None].gradients.abs().log2()
    least, smallest = math.log2(FLOAT16.smallest), math.log2(FLOAT16.smallest_normal)
    edges = torch.arange(-48.0, 17.0)
    for factor, style, colour in ((1.0, "-", PALETTE[5]), (shown, "--", PALETTE[6])):
        counts = torch.histc(exponents + math.log2(factor), len(edges) - 1, -48, 16)
        name = "as they are" if factor == 1 else f"times {power(factor)}"
        look = {"linestyle": style, "color": colour, "linewidth": 1.6, "label": name}
        sizes.stairs((100 * counts / len(exponents)).tolist(), edges.tolist(), **look)
    top = sizes.get_ylim()[1] * 1.35
    for left, right, shade, name in (
        (-48, least - 1, "#cccccc", "becomes 0"),
        (least - 1, smallest, "#eeeeee", "fewer\ndigits"),
        (smallest, 16, "white", "full precision"),
    ):
        sizes.axvspan(left, right, color=shade, zorder=0)
        sizes.text((left + right) / 2, top * 0.97, name, ha="center", va="top", fontsize="small")
    sizes.set(xlim=(-48, 16), ylim=(0, top), ylabel="gradients (%)")
    sizes.set_xlabel("size of a gradient, as a power of 2")
    sizes.legend(loc="center right", fontsize="small")
    scales = [scale for scale in runs if scale]
    powers = [math.log2(scale) for scale in scales]
    losses = [runs[scale].loss for scale in scales]
    loss.plot(powers, losses, "-o", color=PALETTE[5], label="float16 gradients")
    wide = {"color": "black", "linestyle": "--", "linewidth": 1, "label": "float32 gradients"}
    loss.axhline(runs[None].loss, **wide)
    loss.set(xlabel="loss scale, as a power of 2", ylabel=f"loss of the last {LAST} steps")
    loss.set_xticks(powers)
    loss.grid(alpha=0.3)
    loss.legend(fontsize="small", loc="upper center")
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure


def power(scale: float) -> str:
    """2**16: "2^16"."""
    return f"2^{math.log2(scale):.0f}"


class Scales(NamedTuple):
    """The smallest and the largest loss scale that train as float32 does, and how far their losses
    are from its at most; the smallest and the largest scale tried.

    `held`: so do all between the two, 1 and the one shown among them, though float16 loses
    gradients with 1; the smallest one tried does not train, and the largest one skips each step.
    """

    held: bool
    good: tuple[float, float]
    apart: float
    low: float
    high: float


def scales(runs: Mapping[float | None, Run], shown: float) -> Scales:
    """From a run with each scale, and the one with float32 gradients under None."""
    wide = runs[None]
    gap = {scale: abs(run.loss - wide.loss) for scale, run in runs.items() if scale}
    good = [scale for scale, apart in gap.items() if apart < SAME] or [1.0]
    least, most, low, high = min(good), max(good), min(gap), max(gap)
    held = (
        wide.lost() > 0.01 > 10 * wide.lost(shown)
        and {scale for scale in gap if least <= scale <= most} <= set(good)
        and {1.0, shown} <= set(good)
        and gap[low] > 0.1
        and runs[high].skipped == len(runs[high].losses)
    )
    return Scales(held, (least, most), max(gap[scale] for scale in good), low, high)
