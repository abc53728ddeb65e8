"""ImageNet in one hour: the published errors by batch, up to which batch they stay, and a picture.

Goyal et al. 2017, Accurate, large minibatch SGD: training ImageNet in 1 hour
(https://arxiv.org/abs/1706.02677): ResNet-50, 90 epochs, 32 images on each GPU. Errors are
top-1 on the validation images, means of five runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from matplotlib.figure import Figure

BASE_BATCH = 256
SPREAD = 0.12  # percentage points: standard deviation of the base's error over five runs

LINEAR = "linear rule, gradual warm-up"
MARKERS = ("^", "s", "D")


@dataclass(frozen=True)
class Trained:
    """Top-1 validation error in percent after 90 epochs with this batch, over all ranks."""

    batch: int
    way: str
    error: float


TRAINED = (
    Trained(256, LINEAR, 23.60),
    Trained(8192, LINEAR, 23.74),
    Trained(16384, LINEAR, 24.79),
    Trained(32768, LINEAR, 27.55),
    Trained(65536, LINEAR, 33.96),
    Trained(8192, "no warm-up", 24.84),
    Trained(8192, "constant warm-up (0.1, then 3.2)", 25.88),
    Trained(8192, "square-root rule", 26.22),
)


def errors(trained: Sequence[Trained] = TRAINED) -> Mapping[int, float]:
    """The error by batch, with the linear rule and gradual warm-up."""
    return {one.batch: one.error for one in trained if one.way == LINEAR}


def limit(trained: Sequence[Trained] = TRAINED, within: float = 2 * SPREAD) -> int:
    """The largest batch up to which all errors are at most `within` above that of the base."""
    found = BASE_BATCH
    for batch, error in sorted(errors(trained).items()):
        if error > errors(trained)[BASE_BATCH] + within:
            break
        found = batch
    return found


class Limit(NamedTuple):
    """Up to this `batch` the error stays; `others` are errors at 8192 by other ways."""

    held: bool
    batch: int
    others: Mapping[str, float]


def found(trained: Sequence[Trained] = TRAINED) -> Limit:
    """Whether the error stays with 32 times the batch, by the linear rule and warm-up alone."""
    by_batch, most = errors(trained), limit(trained)
    others = {one.way: one.error for one in trained if one.batch == 8192 and one.way != LINEAR}
    worse = min(others.values()) > by_batch[8192] + 2 * SPREAD
    return Limit(most == 8192 and worse and max(by_batch) > most, most, others)


def error_picture(trained: Sequence[Trained] = TRAINED) -> Figure:
    """Error over batch: a line for the linear rule with gradual warm-up, a mark for each other way.

    The line is solid as far as the error stays that of the smallest batch.
    """
    by_batch, most = errors(trained), limit(trained)
    flat = {batch: error for batch, error in by_batch.items() if batch <= most}
    rising = {batch: error for batch, error in by_batch.items() if batch >= most}
    figure = Figure(figsize=(9, 4), layout="constrained")
    axes = figure.subplots()
    axes.axhline(by_batch[BASE_BATCH], color="grey", linewidth=1, linestyle=":")
    axes.plot(*zip(*rising.items(), strict=True), "o--", color="#0072B2", markerfacecolor="white")
    axes.plot(*zip(*flat.items(), strict=True), "o-", color="#0072B2", label=LINEAR)
    others = [one for one in trained if one.way != LINEAR]
    for one, marker in zip(others, MARKERS, strict=True):
        look = {"color": "#D55E00", "markersize": 9, "markeredgecolor": "white", "label": one.way}
        axes.plot(one.batch, one.error, marker, **look)
    for batch, error in by_batch.items():
        axes.annotate(
            f"{error:.2f}",
            (batch, error),
            xytext=(7, -11),
            textcoords="offset points",
            fontsize=9,
        )
    axes.set_xscale("log", base=2)
    sizes = [256 * 2**power for power in range(9)]
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.set(xlabel="images in a batch, all GPUs together", ylabel="top-1 validation error (%)")
    axes.set_xlim(sizes[0] / 1.4, sizes[-1] * 1.7)
    axes.set_ylim(22, 36)
    title = f"The linear rule with warm-up holds up to {most} images a batch, and not beyond"
    axes.set_title(title, loc="left", fontsize=11)
    axes.legend(loc="upper left", fontsize=9)
    axes.grid(alpha=0.3)
    return figure
