"""The stages of tf.data pipelines and what each costs, side by side."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from hpml.modules.m03_profiling.lecture.tf_data import InputPipeline
from hpml.trace.layout import PALETTE

WAITING, STAGE = PALETTE[5], PALETTE[1]


def picture(pipelines: Mapping[str, InputPipeline], *, title: str) -> Figure:
    """A panel for each of `pipelines`, by its name: a bar for each stage and one for the step.

    Milliseconds per step. Of the step's bar the hatched part is waiting for input.
    """
    figure = Figure(figsize=(9.0, 3.2), layout="constrained")
    panels = figure.subplots(1, len(pipelines), sharex=True, squeeze=False)[0]
    for axes, (name, found) in zip(panels, pipelines.items(), strict=True):
        per_step = 1e3 / found.steps
        names = [stage.name for stage in found.stages]
        values = [stage.seconds * per_step for stage in found.stages]
        axes.barh(range(len(names)), values, 0.7, color=STAGE)
        for row, value in enumerate(values):
            axes.annotate(
                f" {value:.1f}", (value, row), va="center", fontsize=8, annotation_clip=False
            )
        last, waiting = len(names) + 0.3, found.waiting * per_step
        axes.barh(last, waiting, 0.7, color=WAITING, hatch="////", edgecolor="white")
        rest = found.seconds * per_step - waiting
        axes.barh(last, rest, 0.7, left=waiting, color=WAITING)
        axes.annotate(f" {waiting + rest:.1f}", (waiting + rest, last), va="center", fontsize=8)
        axes.set_yticks([*range(len(names)), last], [*names, "whole step"], fontsize="small")
        axes.invert_yaxis()
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlabel("ms per step")
        axes.set_title(f"{name}: {found.share:.0%} of a step is waiting (hatched)", fontsize=9)
        axes.margins(x=0.12)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure
