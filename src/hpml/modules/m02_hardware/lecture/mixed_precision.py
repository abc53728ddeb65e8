"""The one training script in float32 and in bfloat16: accuracy and seconds side by side."""

import math
from collections.abc import Mapping

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


def accuracy(runs: Mapping[str, History]) -> tuple[bool, str, str]:
    """What `hpml.publish.conclude` takes: is it kept?"""
    wide, brain = runs["fp32"].test_accuracy, runs["bf16"].test_accuracy
    seen = f"After {len(runs['fp32'].epochs)} epochs float32 has {wide:.1%}, bfloat16 {brain:.1%}"
    sentence = (
        f"**Answer.** {seen} of the test images right. Of {TEST_IMAGES:,} images the standard "
        f"error is {math.sqrt(wide * (1 - wide) / TEST_IMAGES):.1%}."
    )
    return abs(wide - brain) < APART and min(wide, brain) > 0.2, sentence, f"{seen}."


def seconds(runs: Mapping[str, History]) -> tuple[bool, str, str]:
    """What `hpml.publish.conclude` takes: is it faster where the processor has bfloat16?"""
    # Of each run the quickest epoch: other programs only add
    wide, brain = (min(epoch.seconds for epoch in runs[name].epochs) for name in NAMES)
    fast = has_bf16(torch.device("cpu"))
    seen = f"The quickest epoch takes {wide:.1f} s in float32 and {brain:.1f} s in bfloat16"
    if fast:
        sentence = f"{seen}: {wide / brain:.1f} times as fast."
        return wide > 1.05 * brain, sentence, f"{seen}: the machine was busy."
    sentence = f"{seen}: without an instruction for bfloat16, each number is converted."
    return wide < brain, sentence, f"{seen}."
