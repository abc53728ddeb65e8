"""Published errors over the batch: where the linear rule ends, and what warm-up is worth."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from hpml.modules.m08_case_studies.lecture.imagenet_hour import (
    BASE_BATCH,
    LINEAR,
    TRAINED,
    Trained,
    errors,
    limit,
)

MARKERS = ("^", "s", "D")


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
