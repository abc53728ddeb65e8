"""A step of torch.profiler's trace and Horovod's timeline of the same rank, on one clock.

Both files know when their clock was 0: torch.profiler's as nanoseconds since 1970, Horovod's as
microseconds. What torch.profiler sees as one long call of the optimizer's `step` is, for Horovod,
the negotiation and the transfer of each gradient.
"""

from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from hpml.errors import UserError
from hpml.modules.m03_profiling.lecture.shares_picture import LOOKS as PHASE_LOOKS
from hpml.trace.horovod_drawing import LOOKS
from hpml.trace.horovod_timeline import Phase, Timeline
from hpml.trace.profiler.phases import phases
from hpml.trace.profiler.trace import Trace

NAME = {"fontsize": 8, "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1}}
SHOWN: tuple[Phase, ...] = ("negotiate", "copy", "transfer")


@dataclass(frozen=True)
class Bar:
    """From `begin` to `end`, in seconds since the step began."""

    what: Any  # a phase of either
    begin: float
    end: float


@dataclass(frozen=True)
class OneStep:
    """Step `number`, `seconds` long: PyTorch's phases, and each gradient's spans by its name."""

    number: int
    seconds: float
    phases: tuple[Bar, ...]
    gradients: dict[str, tuple[Bar, ...]]

    @property
    def sent(self) -> float:
        """When Horovod had the last gradient back, in seconds since the step began."""
        return max(bar.end for bars in self.gradients.values() for bar in bars)

    def end_of(self, phase: str) -> float:
        """When the phase ended for the last time; 0.0 where it is not in the step."""
        return max((bar.end for bar in self.phases if bar.what == phase), default=0.0)

    def seconds_of(self, phase: str) -> float:
        return sum(bar.end - bar.begin for bar in self.phases if bar.what == phase)

    @property
    def waited(self) -> float:
        """Seconds that torch.profiler has as "optimizer", and in which gradients were still out."""
        bars = [bar for bar in self.phases if bar.what == "optimizer"]
        return sum(max(min(bar.end, self.sent) - bar.begin, 0.0) for bar in bars)


def one_step(trace: Trace, timeline: Timeline, number: int | None = None) -> OneStep:
    """Step `number` of the trace (default: its last one), with what Horovod did in it.

    Raises UserError where the trace has no such step, or the timeline nothing in that time: the two
    are then of different jobs.
    """
    found = [step for step in trace.steps if number in (None, step.number)]
    if not found:
        raise UserError(f"trace: no step {number} in it: {len(trace.steps)} others are")
    step = found[-1]
    marked = tuple(
        Bar(phase, max(begin, step.start) - step.start, min(end, step.end) - step.start)
        for phase, pieces in phases(trace).on_host.items()
        for begin, end in pieces
        if begin < step.end and end > step.start
    )
    between = (timeline.started or 0.0) - trace.epoch * 1e-9 - step.start
    gradients: dict[str, tuple[Bar, ...]] = {}
    for operation in timeline.operations:
        # Not by when it was first asked for: another rank may do that from its next step already
        agreed = operation.turn or operation.negotiation
        inside = agreed is not None and 0 <= agreed.begin + between < step.end - step.start
        if operation.kind != "ALLREDUCE" or not inside:
            continue
        name = operation.tensor.removeprefix("allreduce.")
        spans = [span for span in operation.spans if span.end and span.phase in SHOWN]
        gradients[name] = gradients.get(name, ()) + tuple(
            Bar(span.phase, span.begin + between, span.end + between) for span in spans
        )
    if not gradients:
        raise UserError(
            f"timeline: Horovod reduced nothing in step {step.number} of the trace: "
            "are both files of the same job?"
        )
    return OneStep(step.number, step.end - step.start, marked, gradients)


def one_step_picture(step: OneStep, *, title: str) -> Figure:
    """The phases in the first row, a row for each gradient below; milliseconds in the step."""
    figure = Figure(figsize=(9.0, 1.9 + 0.2 * len(step.gradients)), layout="constrained")
    axes = figure.subplots()
    for bar in step.phases:
        place = (1e3 * bar.begin, 1e3 * (bar.end - bar.begin))
        axes.broken_barh([place], (-1.4, 1.6), edgecolor="white", **PHASE_LOOKS[bar.what])
        if bar.end - bar.begin > 0.12 * step.seconds:
            axes.text(place[0] + place[1] / 2, -0.6, bar.what, ha="center", va="center", **NAME)
    for row, bars in enumerate(step.gradients.values(), 1):
        for bar in bars:
            colour, hatch, _ = LOOKS[bar.what]
            # At least as wide as a line: a transfer inside one machine takes less than a pixel.
            width = 1e3 * max(bar.end - bar.begin, 0.003 * step.seconds)
            axes.broken_barh(
                [(1e3 * bar.begin, width)], (row - 0.4, 0.8),
                facecolor=colour, hatch=hatch, edgecolor="white", linewidth=0,
            )  # fmt: skip
    axes.axvline(1e3 * step.end_of("backward"), color="black", linestyle=":", linewidth=1)
    names = [name.removesuffix(".weight").replace("convolution", "conv") for name in step.gradients]
    axes.set_yticks([-0.6, *range(1, len(names) + 1)], ["torch.profiler", *names], fontsize=7)
    axes.set_ylim(len(names) + 0.6, -1.6)
    axes.set_xlim(0, 1e3 * step.seconds)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "left", "right"]].set_visible(False)
    axes.set_xlabel(f"ms in step {step.number}; dotted: backward ends")
    handles = [
        Patch(facecolor=LOOKS[phase][0], hatch=LOOKS[phase][1], label=f"Horovod: {LOOKS[phase][2]}")
        for phase in SHOWN
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    axes.set_title(title, loc="left", fontsize=11)
    return figure
