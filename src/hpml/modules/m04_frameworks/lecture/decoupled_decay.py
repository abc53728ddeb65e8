"""Weight decay in the gradient, and beside it: what Adam makes of each.

Loshchilov and Hutter 2019, Decoupled weight decay regularization (ICLR; arXiv:1711.05101): for SGD
the two are the same up to the learning rate's factor, for Adam they are not.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from torch import nn

from hpml.predict.draw import COLOURS, LINES

SLOPES = (0.1, 1.0, 10.0)
LR, DECAY, STEPS = 0.01, 0.5, 200
CLASSES = {"Adam (decay in the gradient)": torch.optim.Adam, "AdamW (beside it)": torch.optim.AdamW}

# By rule: for each of SLOPES the weight at the start and after each step
Decays = Mapping[str, Sequence[Sequence[float]]]


def decays() -> dict[str, list[list[float]]]:
    """Weights of 1 whose gradients are +s, −s, +s, ... with s from SLOPES, so that nothing but the
    decay moves them for long; after each of STEPS steps, by rule."""
    return {name: [_decay(rule, slope) for slope in SLOPES] for name, rule in CLASSES.items()}


def _decay(rule: Callable[..., torch.optim.Optimizer], slope: float) -> list[float]:
    weight = nn.Parameter(torch.ones((), dtype=torch.float64))
    optimizer = rule([weight], lr=LR, weight_decay=DECAY)
    values = [1.0]
    for step in range(STEPS):
        weight.grad = torch.full_like(weight, slope if step % 2 == 0 else -slope)
        optimizer.step()
        values.append(weight.item())
    return values


class Left(NamedTuple):
    """What is left of the weights, for each of SLOPES, and what AdamW should leave. Held if only
    Adam's decay depends on the gradient."""

    held: bool
    adam: list[float]
    adamw: list[float]
    right: float


def left(found: Decays) -> Left:
    """The last of the weights."""
    inside, beside = ([values[-1] for values in found[name]] for name in CLASSES)
    right = (1 - LR * DECAY) ** STEPS
    held = all(abs(value - right) < 0.05 for value in beside) and inside[-1] > inside[0] + 0.5
    return Left(held, inside, beside, right)


def decay_picture(found: Decays, *, title: str = "") -> Figure:
    """A panel for each rule: the weights over the steps, a line for each size of the gradient."""
    figure = Figure(figsize=(9, 2.9), layout="constrained")
    panels = figure.subplots(1, len(found), sharey=True)
    for axes, (name, lines) in zip(panels, found.items(), strict=True):
        for number, (slope, values) in enumerate(zip(SLOPES, lines, strict=True)):
            look = {"color": COLOURS[number], "linestyle": LINES[number], "linewidth": 1.8}
            axes.plot(values, label=f"gradient ±{slope:g}", **look)
        axes.set(xlabel="step", ylim=(-0.05, 1.05))
        axes.set_title(name, fontsize=10)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("weight")
    panels[0].legend(fontsize=9, loc="lower left", framealpha=1)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure
