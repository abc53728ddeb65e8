"""Training runs as pictures: who sees which image, how fast, how well, and which diverge."""

import math
from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from hpml.train.history import Epoch

if TYPE_CHECKING:
    from torch import Tensor

# Okabe and Ito, Color Universal Design (2008); with markers and line styles for prints.
BLUE, SKY, ORANGE, RED, GREY = "#0072B2", "#56B4E9", "#E69F00", "#D55E00", "#999999"
CURVES = ("black", GREY, SKY, BLUE, RED, ORANGE)
DASHES = ("-", ":", "--", (0, (6, 1, 1, 1)), "-.", (0, (8, 2)))
LOOKS = (("-o", "black"), ("--s", GREY), ("-.^", ORANGE), (":D", BLUE))


def shares(tables: Mapping[str, Sequence[Sequence[int]]], title: str) -> Figure:
    """Which image each rank takes in each step: one panel per table, a row for each rank.

    `tables` has, by the panel's title, the image numbers [ranks][steps]. A number that came before,
    counting step by step, is bold on orange.
    """
    figure = Figure(figsize=(9, 2.6), layout="constrained")
    panels = figure.subplots(1, len(tables), sharey=True, squeeze=False)[0]
    for panel, (name, table) in zip(panels, tables.items(), strict=True):
        ranks, steps = len(table), len(table[0])
        seen: set[int] = set()
        for step in range(steps):
            for rank in range(ranks):
                image = table[rank][step]
                look = {"ha": "center", "va": "center"}
                if image in seen:
                    look |= {"fontweight": "bold"}
                    panel.axvspan(
                        step - 0.5,
                        step + 0.5,
                        1 - (rank + 1) / ranks,
                        1 - rank / ranks,
                        color=ORANGE,
                    )
                seen.add(image)
                panel.text(step, rank, str(image), **look)
        panel.set(xlim=(-0.5, steps - 0.5), ylim=(ranks - 0.5, -0.5), xlabel="step")
        panel.set_xticks(range(steps))
        panel.set_yticks(range(ranks), [f"rank {rank}" for rank in range(ranks)])
        panel.set_title(name, fontsize=9)
    figure.suptitle(title, fontsize=11)
    return figure


def speeds(
    images_per_second: Mapping[str, float],
    ideal: float,
    title: str,
    colours: Sequence[str] = (SKY, ORANGE),
) -> Figure:
    """A bar for each run, images/s, in `colours` by turns, and a dashed line at `ideal`."""
    figure = Figure(figsize=(6, 0.8 + 0.6 * len(images_per_second)), layout="constrained")
    axes = figure.subplots()
    bars = axes.barh(
        list(images_per_second),
        list(images_per_second.values()),
        color=list(islice(cycle(colours), len(images_per_second))),
        edgecolor="black",
    )
    edge = 1.2 * max(ideal, *images_per_second.values())
    for bar, speed in zip(bars, images_per_second.values(), strict=True):
        inside = speed > 0.25 * edge  # there is room for the number
        where = {"x": speed, "y": bar.get_y() + bar.get_height() / 2, "va": "center"}
        axes.text(
            s=f"{speed:.0f} " if inside else f" {speed:.0f}",
            ha="right" if inside else "left",
            **where,
        )
    axes.axvline(ideal, color="black", linestyle="--", label="ideal")
    axes.invert_yaxis()
    axes.set_xlim(0, edge)
    axes.set_xlabel("images/s, loading included")
    axes.set_title(title, fontsize=10)
    axes.legend(loc="center right", fontsize=8)
    return figure


def accuracies(epochs: Sequence[Epoch], title: str, guessing: float = 0.1) -> Figure:
    """Training and test accuracy after each epoch, in per cent, above what guessing has."""
    figure = Figure(figsize=(6, 3), layout="constrained")
    axes = figure.subplots()
    numbers = [epoch.epoch for epoch in epochs]
    axes.plot(
        numbers, [100 * e.train_accuracy for e in epochs], "--o", color=BLUE, label="training"
    )
    axes.plot(numbers, [100 * e.test_accuracy for e in epochs], "-s", color=RED, label="test")
    axes.axhline(100 * guessing, color=GREY, linestyle=":", label="guessing")
    axes.set(xlabel="epoch", ylabel="accuracy (%)", xticks=numbers, ylim=(0, 100))
    axes.set_title(title, fontsize=10)
    axes.legend(fontsize=8)
    return figure


def losses(runs: Mapping[str, Sequence[Epoch]], title: str) -> Figure:
    """Training loss after each epoch, a line for each of up to four runs."""
    figure = Figure(figsize=(6.5, 3), layout="constrained")
    axes = figure.subplots()
    for (name, epochs), (style, colour) in zip(runs.items(), LOOKS, strict=False):
        numbers = [epoch.epoch for epoch in epochs]
        axes.plot(numbers, [e.train_loss for e in epochs], style, color=colour, label=name)
        axes.set_xticks(numbers)
    axes.set(xlabel="epoch", ylabel="training loss per image")
    axes.set_title(title, fontsize=10)
    axes.legend(fontsize=8)
    return figure


def descents(
    runs: Mapping[str, Sequence[tuple[float, float]]], title: str, most: float = 30.0
) -> Figure:
    """Loss against samples seen, on logarithmic axes: a line for each run, by its name.

    A run is its points (samples, loss), in order. One that reaches a loss above `most`, or none at
    all any more, is drawn up to there, and a cross marks where it left the picture for good.
    """
    figure = Figure(figsize=(7.5, 3.8), layout="constrained")
    axes = figure.subplots()
    for number, (name, points) in enumerate(runs.items()):
        inside = [math.isfinite(loss) and loss <= most for _, loss in points]
        kept = max((k + 1 for k, fits in enumerate(inside) if fits), default=0)
        look = {"color": CURVES[number % len(CURVES)], "linestyle": DASHES[number % len(DASHES)]}
        shown = [(seen, min(loss, most)) for seen, loss in points[:kept]]
        if kept < len(points):
            shown.append((points[kept][0], most))
            axes.plot(*shown[-1], "X", color=look["color"], markeredgecolor="black", clip_on=False)
            name += ": diverges"
        axes.plot(
            [seen for seen, _ in shown],
            [loss for _, loss in shown],
            linewidth=2,
            label=name,
            **look,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(top=most)
    axes.set(xlabel="samples seen", ylabel="training loss")
    axes.set_title(title, fontsize=10)
    figure.legend(loc="outside right center", fontsize=8, frameon=False)
    return figure


def predictions(
    images: "Tensor", labels: "Tensor", logits: "Tensor", classes: Sequence[str]
) -> Figure:
    """Images uint8 [N, 3, H, W], each under the class that it is taken for; in red where wrong.

    `labels` are int64 [N], `logits` float [N, C].
    """
    found = logits.argmax(dim=1)
    columns = 8
    rows = math.ceil(len(images) / columns)
    figure = Figure(figsize=(9, 1.5 * rows + 0.3), layout="constrained")
    for place, (image, label, guess) in enumerate(zip(images, labels, found, strict=True)):
        axes = figure.add_subplot(rows, columns, place + 1)
        axes.imshow(image.permute(1, 2, 0).numpy())
        axes.set_axis_off()
        right = bool(guess == label)
        title = classes[guess] if right else f"{classes[guess]}\nis {classes[label]}"
        axes.set_title(title, fontsize=8, color="black" if right else RED)
    right = int((found == labels).sum())
    figure.suptitle(f"{right} of {len(images)} are right", fontsize=10)
    return figure
