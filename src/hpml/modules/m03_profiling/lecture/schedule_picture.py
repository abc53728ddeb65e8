"""Which steps a profiler's schedule waits for, warms up in and records."""

from collections.abc import Callable

from matplotlib.figure import Figure
from matplotlib.patches import Patch
from torch.profiler import ProfilerAction

from hpml.trace.layout import PALETTE

Schedule = Callable[[int], ProfilerAction]
LOOKS = {
    ProfilerAction.NONE: ("off", "white", ""),
    ProfilerAction.WARMUP: ("warm-up: records, and throws it away", PALETTE[4], "...."),
    ProfilerAction.RECORD: ("active: records", PALETTE[0], ""),
    ProfilerAction.RECORD_AND_SAVE: ("active, and on_trace_ready at its end", PALETTE[5], "////"),
}
RECORDED = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def recorded(schedule: Schedule, steps: int) -> tuple[list[int], int]:
    """The steps that are recorded of the first `steps`, and how often a trace is handed over."""
    actions = [schedule(step) for step in range(steps)]
    numbers = [step for step, action in enumerate(actions) if action in RECORDED]
    return numbers, actions.count(ProfilerAction.RECORD_AND_SAVE)


def picture(schedule: Schedule, steps: int, *, title: str = "") -> Figure:
    """The first `steps` steps as boxes, with what `torch.profiler.schedule` says of each."""
    figure = Figure(figsize=(9, 1.6), layout="constrained")
    axes = figure.subplots()
    for step in range(steps):
        _, colour, hatch = LOOKS[schedule(step)]
        axes.barh(
            0, 1, left=step - 0.5, height=0.8,
            facecolor=colour, hatch=hatch, edgecolor="black", linewidth=0.8,
        )  # fmt: skip
    axes.set_xticks(range(steps))
    axes.set_xlim(-0.6, steps - 0.4)
    axes.set_yticks([])
    axes.tick_params(axis="x", length=0)
    axes.spines[["top", "left", "right", "bottom"]].set_visible(False)
    axes.set_xlabel("training step")
    axes.set_title(title, loc="left", fontsize=11)
    handles = [
        Patch(label=label, facecolor=colour, hatch=hatch, edgecolor="black")
        for label, colour, hatch in LOOKS.values()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure
