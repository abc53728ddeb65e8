"""One bit for each gradient, and the error carried on: packed, trained with, and drawn.

A gradient becomes the signs of its elements and one number, their mean size. What that leaves out
is kept and added to the next step's gradient: error feedback (Seide et al. 2014, 1-bit stochastic
gradient descent, Interspeech; that it cures schemes of this kind: Karimireddy et al. 2019, Error
feedback fixes SignSGD, ICML, arXiv:1901.09847). Bits go to all ranks, or in parts: each rank adds
up one part and makes bits of the sum (Tang et al. 2021, 1-bit Adam, arXiv:2102.02888, which keeps
the second error in a place of its own; here its owner keeps both in one).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from torch import Tensor
from torch.nn.functional import mse_loss

from hpml.modules.m04_frameworks.lecture.small_training import batch, network
from hpml.ranks import mark
from hpml.ranks.evidence import Call, Evidence
from hpml.trace.layout import PALETTE

STEPS, RATE, LAST = 200, 0.1, 20
SCALE_BYTES = 4
EXACT, FEEDBACK = "float32", "1 bit to all, error feedback"
IN_PARTS, FORGOTTEN = "1 bit in parts, error feedback", "1 bit to all, error forgotten"


def pack(values: Tensor) -> Tensor:
    """The signs of float32 values as bits, eight to a byte, behind their mean size: a uint8 vector
    of 4 + ceil(n / 8) elements."""
    size = values.abs().mean().reshape(1).view(torch.uint8)
    bits = np.packbits((values.flatten() >= 0).numpy())
    return torch.cat([size, torch.from_numpy(bits)])


def unpack(message: Tensor, like: Tensor) -> Tensor:
    """The values that a message of `pack` stands for, each plus or minus the mean size, float32 of
    the shape of `like`."""
    size = message[:SCALE_BYTES].clone().view(torch.float32)
    bits = np.unpackbits(message[SCALE_BYTES:].numpy(), count=like.numel())
    return (torch.from_numpy(bits).float() * 2 - 1).mul_(size).view_as(like)


def train(rank: int, name: str, average: Callable[[Tensor, Tensor], Tensor]) -> list[float]:
    """On a rank: STEPS of plain SGD on the rank's batches; the loss of each.

    `average(gradient, error)` returns the mean over the ranks, float32 tensors of one shape. It may
    keep in `error` what it leaves out; that is zero at first. Sets a mark `name` before the first
    step.
    """
    model = network().float()
    errors = [torch.zeros_like(parameter) for parameter in model.parameters()]
    mark(name)
    losses = []
    for step in range(STEPS):
        model.zero_grad()
        inputs, targets = batch(rank, step)
        loss = mse_loss(model(inputs.float()), targets.float())
        loss.backward()
        with torch.no_grad():
            for parameter, error in zip(model.parameters(), errors, strict=True):
                parameter -= RATE * average(parameter.grad, error)
        losses.append(loss.item())
    return losses


@dataclass(frozen=True)
class Training:
    """`losses` of each step, the mean over the ranks; `nbytes` that a rank has sent."""

    losses: tuple[float, ...]
    nbytes: float

    @property
    def loss(self) -> float:
        """The mean over the last steps."""
        return sum(self.losses[-LAST:]) / LAST


def sent(call: Call, ranks: int) -> float:
    """Bytes that a rank sends in a call, by the algorithm that sends fewest: an all-reduce sends
    each byte of its input 2 (p − 1) / p times, an all-gather p − 1 times, an all-to-all (p − 1) / p
    times (Thakur et al. 2005, Optimization of Collective Communication Operations in MPICH).

    Raises KeyError for another operation.
    """
    others = ranks - 1
    times = {
        "all_reduce": 2 * others / ranks,
        "all_gather": others,
        "all_to_all_single": others / ranks,
    }
    return times[call.operation] * call.nbytes


def trainings(
    evidence: Evidence, curves: Sequence[Mapping[str, list[float]]]
) -> dict[str, Training]:
    """Each way's training, by the name of its mark. `curves` are each rank's losses, by name."""
    rank = evidence.ranks[0]
    begins = {one.name: one.at for one in rank.marks if one.name in curves[0]}
    ends = [*list(begins.values())[1:], float("inf")]
    found = {}
    for (name, begin), end in zip(begins.items(), ends, strict=True):
        calls = [call for call in rank.calls if begin <= call.issued < end]
        nbytes = sum(sent(call, len(curves)) for call in calls)
        by_rank = zip(*(curve[name] for curve in curves), strict=True)
        found[name] = Training(tuple(sum(losses) / len(curves) for losses in by_rank), nbytes)
    return found


def feedback_repairs(found: Mapping[str, Training]) -> bool:
    """Whether one bit saves most bytes in parts, and fewer to all, costs nothing with feedback, and
    something without."""
    exact, kept, parts, lost = (found[name] for name in (EXACT, FEEDBACK, IN_PARTS, FORGOTTEN))
    saves = exact.nbytes > 20 * parts.nbytes and exact.nbytes > 10 * kept.nbytes
    costs = max(kept.loss, parts.loss) >= 1.1 * exact.loss
    return saves and parts.nbytes < kept.nbytes and not costs and lost.loss > 1.3 * exact.loss


def title(found: Mapping[str, Training]) -> str:
    """The message of the picture."""
    exact, parts, lost = (found[name] for name in (EXACT, IN_PARTS, FORGOTTEN))
    ratios = [training.loss / exact.loss for training in (parts, lost)]
    return (
        f"{exact.nbytes / parts.nbytes:.0f} times fewer bytes: the loss is {ratios[0]:.2f} times "
        f"that of float32 with feedback, {ratios[1]:.2f} times without"
    )


def picture(found: Mapping[str, Training], *, title: str = "") -> Figure:
    """The loss over the steps, and over the bytes that a rank has sent."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    styles = {
        EXACT: ("-", "black"),
        FEEDBACK: ("--", PALETTE[5]),
        IN_PARTS: ("-.", PALETTE[2]),
        FORGOTTEN: (":", PALETTE[6]),
    }
    for name, training in found.items():
        style, colour = styles[name]
        losses = smoothed(training.losses)
        steps = range(1, len(losses) + 1)
        per_step = training.nbytes / len(losses)
        look = {"linestyle": style, "color": colour, "linewidth": 2, "label": name}
        panels[0].plot(steps, losses, **look)
        panels[1].plot([per_step * step / 1e3 for step in steps], losses, **look)
    for axes in panels:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.grid(alpha=0.3)
    panels[0].set(xlabel="steps", ylabel="loss (mean of 10 steps)")
    panels[1].set(xlabel="sent by a rank (kB)", xscale="log")
    panels[1].xaxis.set_major_formatter("{x:g}")
    panels[0].legend(fontsize="small")
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure


def smoothed(losses: Sequence[float], over: int = 10) -> list[float]:
    """The mean of each step and those before it, `over` at most."""
    parts = [losses[max(0, end - over) : end] for end in range(1, len(losses) + 1)]
    return [sum(part) / len(part) for part in parts]
