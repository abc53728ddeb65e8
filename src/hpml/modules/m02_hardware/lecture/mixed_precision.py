"""The one training script in float32 and in bfloat16: accuracy and seconds side by side."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from matplotlib.figure import Figure

from hpml.train.config import TrainConfig
from hpml.train.draw import BLUE, RED
from hpml.train.hardware import has_bf16
from hpml.train.history import History
from hpml.train.run import train

NAMES = {"fp32": "float32", "bf16": "bfloat16"}
LOOKS = {"fp32": {"color": BLUE, "fmt": "-o"}, "bf16": {"color": RED, "fmt": "--s"}}
WIDTHS = (32, 128, 128)  # channels; a narrower network than the course's, to save seconds
TEST_IMAGES = 2_000
APART = 0.05  # of the accuracies: more than four standard errors


def compare(
    samples: int = 3_000, epochs: int = 3, widths: tuple[int, ...] = WIDTHS
) -> dict[str, History]:
    """Short trainings on one thread that differ in --precision only: "fp32", then "bf16".

    bfloat16 by torch.autocast: convolutions and matrix products, while weights, their update,
    normalisation's statistics and the loss are float32. Raises UserError as `train` does.
    """
    return {
        precision: train(
            TrainConfig(
                samples=samples,
                test_samples=TEST_IMAGES,
                epochs=epochs,
                widths=widths,
                early_share=0.0,
                precision=precision,
                threads=1,
                progress=False,
            )
        )
        for precision in NAMES
    }


def picture(runs: Mapping[str, History], *, title: str = "") -> Figure:
    """Test accuracy after each epoch against the seconds of training until then."""
    figure = Figure(figsize=(6.5, 3.2), layout="constrained")
    axes = figure.subplots()
    for precision, history in runs.items():
        ends, seconds = [], 0.0
        for epoch in history.epochs:
            seconds += epoch.seconds
            ends.append(seconds)
        look = dict(LOOKS[precision])
        accuracy = [100 * epoch.test_accuracy for epoch in history.epochs]
        axes.plot(ends, accuracy, look.pop("fmt"), label=NAMES[precision], **look)
    axes.axhline(10, color="black", linestyle=":", linewidth=1, label="guessing")
    axes.set(xlabel="seconds of training", ylabel="test accuracy (%)", ylim=(0, 100))
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    axes.set_title(title, loc="left", fontsize=10)
    return figure


def same_accuracy(runs: Mapping[str, History]) -> bool:
    """Whether bfloat16 keeps float32's accuracy, and both have learned something."""
    wide, brain = runs["fp32"].test_accuracy, runs["bf16"].test_accuracy
    return abs(wide - brain) < APART and min(wide, brain) > 0.2


class Epochs(NamedTuple):
    """Seconds of the quickest epoch in float32 and in bfloat16, and whether this processor has an
    instruction for bfloat16. `held`: it is faster with one, slower without."""

    held: bool
    instruction: bool
    float32: float
    bfloat16: float


def quickest_epochs(runs: Mapping[str, History]) -> Epochs:
    """Of each run the quickest epoch: other programs only add."""
    wide, brain = (min(epoch.seconds for epoch in runs[name].epochs) for name in NAMES)
    fast = has_bf16(torch.device("cpu"))
    return Epochs(wide > 1.05 * brain if fast else wide < brain, fast, wide, brain)
