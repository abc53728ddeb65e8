"""The picture of an answer that loads: what an image costs, and where its crops are."""

import io
from typing import Any

import numpy as np

from hpml.answer import as_python
from hpml.checks.contract import Check, Picture
from hpml.modules.m03_profiling.checks._found_crops import PAD, PLACES, File, is_batch, read_epoch
from hpml.modules.m03_profiling.checks._loaded_epochs import (
    GIVEN,
    LOADED,
    SLOWLY,
    STAGES,
    Cost,
    cost,
    inputs,
)
from hpml.ranks import Evidence, launch

LIMIT = 20.0  # seconds
SEED = 1


def loader_picture(check: Check, source: str) -> Picture:
    """For `Check.picture`: launch the given loader and the answer, and draw both.

    Raises ValueError where what was loaded is not images, or nothing was counted.
    """
    made = inputs(SEED, 1)
    evidence = {}
    for stage in STAGES:
        assert stage.serve is not None
        sent, server = stage.serve(made[stage.name])
        answer: dict[str, Any] = {}
        if stage.with_answer:
            answer = {
                "answer": as_python(source),
                "answer_name": check.id,
                "rules": check.rules,
            }
        evidence[stage.name] = launch(
            stage.drive,
            1,
            **answer,
            inputs=sent,
            process_group=False,
            serve=server,
            looks=True,
            timeout=LIMIT,
        )
    files = made[LOADED][0]["files"]
    number = len(files[0]) // len(files[0][:3073])
    given, answers = cost(evidence[GIVEN], SLOWLY), cost(evidence[LOADED], number)
    if given is None or answers is None:
        raise ValueError("this system does not count the processor time of a process")
    image = io.BytesIO()
    title = (
        f"Loading takes {answers.share:.0%} of a step with your loader, {given.share:.0%} with the "
        "given one"
    )
    figure = drawn(title, given, answers, places(evidence[LOADED], files))
    figure.savefig(image, format="png", dpi=110, facecolor="white")
    words = (
        "Processor time of an image, to load and to train on, with the given loader and with "
        "yours; and how often your images were cropped at each place"
    )
    return Picture(image.getvalue(), words)


def places(evidence: Evidence, files: list[bytes]) -> np.ndarray:
    """How many images were cropped at each place, and how many of these mirrored: (2, 9, 9)."""
    rounds = evidence.values[0]["rounds"] if isinstance(evidence.values[0], dict) else []
    counts = np.zeros((2, PLACES, PLACES), dtype=int)
    for content, epochs in zip(files, rounds, strict=True):
        file = File(content)
        for epoch in epochs:
            if not epoch or not all(is_batch(batch) for batch in epoch):
                raise ValueError("what was loaded is not images")
            crops = read_epoch(file, epoch)
            known = crops.image >= 0
            where = (crops.mirrored[known], crops.top[known], crops.left[known])
            np.add.at(counts, where, 1)
    return counts


def drawn(title: str, given: Cost, answers: Cost, counts: np.ndarray) -> Any:
    from matplotlib.figure import Figure

    from hpml.trace.layout import PALETTE

    figure = Figure(figsize=(9.0, 2.9), layout="constrained")
    bars, *maps = figure.subplots(1, 3, width_ratios=[2.2, 1, 1])
    for row, one in enumerate((given, answers)):
        loading, training = 1e6 * one.loading, 1e6 * one.training
        labels = ("loading", "training") if row == 0 else (None, None)
        bars.barh(row, loading, color=PALETTE[1], hatch="////", edgecolor="white", label=labels[0])
        bars.barh(row, training, left=loading, color=PALETTE[5], edgecolor="white", label=labels[1])
    bars.set_yticks([0, 1], ["given", "yours"])
    bars.invert_yaxis()
    bars.set_xlabel("processor time for an image (µs)")
    bars.legend(frameon=False, fontsize="small", loc="lower right")
    bars.spines[["top", "right", "left"]].set_visible(False)
    bars.tick_params(axis="y", length=0)
    most = max(1, counts.max())
    for axes, name, shown in zip(maps, ("as they are", "mirrored"), counts, strict=True):
        image = axes.imshow(shown, cmap="Greys", vmin=0, vmax=most)
        axes.set_xlabel("first column")
        axes.set_ylabel("first row")
        axes.set_xticks([0, PAD, 2 * PAD])
        axes.set_yticks([0, PAD, 2 * PAD])
        axes.set_title(f"{shown.sum()} crops {name}", fontsize=9)
    figure.colorbar(image, ax=maps, label="crops", fraction=0.05)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure
