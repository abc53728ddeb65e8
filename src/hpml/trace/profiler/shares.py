"""Where the seconds of a step go, on one rank.

At each instant a step is in one part only, so the parts add up to the step. An instant belongs

1. to the phase whose kernel a GPU is running, where there is one;
2. to communication, where a collective is under way and this rank computes nothing: it is
   *exposed*. Communication during which the rank computes is *hidden*: it costs the step nothing,
   and is given beside the parts;
3. to the phase that the main thread is in (`hpml.trace.profiler.phases`);
4. to `other`: time without a name, idle or not.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np

from hpml.errors import UserError
from hpml.trace.profiler import intervals
from hpml.trace.profiler.phases import PHASES, Phases, phases
from hpml.trace.profiler.trace import Step, Trace

PARTS = (*PHASES, "communication", "other")


@dataclass(frozen=True)
class Shares:
    """The parts of a step, in seconds; `str()` is a table.

    The parts add up to `step`. `hidden` is communication behind computation, beside the parts.
    """

    loading: float
    transforms: float
    forward: float
    backward: float
    optimizer: float
    communication: float  # exposed: the rank computes nothing meanwhile
    other: float
    hidden: float

    @property
    def step(self) -> float:
        """Seconds of the step."""
        return sum(self.parts().values())

    def parts(self) -> dict[str, float]:
        """Seconds of each part, in the order of `PARTS`."""
        return {part: getattr(self, part) for part in PARTS}

    def fraction(self, part: str) -> float:
        """How much of the step a part takes, from 0 to 1; 0 for a step that took no time."""
        return getattr(self, part) / self.step if self.step else 0.0

    @property
    def largest(self) -> str:
        """The part that takes most."""
        return max(PARTS, key=self.parts().get)

    def table(self) -> str:
        """The parts as lines of text, in milliseconds and percent.

        Of forward or backward of no time, nothing in the trace says where they are.
        """
        lines = [
            f"{part:<22}{'not marked':>13}"
            if part in ("forward", "backward") and not seconds
            else f"{part:<22}{1e3 * seconds:10.2f} ms{100 * self.fraction(part):7.1f} %"
            for part, seconds in self.parts().items()
        ]
        lines.append(f"{'step':<22}{1e3 * self.step:10.2f} ms{100.0:7.1f} %")
        lines.append(f"{'communication hidden':<22}{1e3 * self.hidden:10.2f} ms")
        return "\n".join(lines)

    __str__ = table


def shares(trace: Trace, step: int | None = None) -> Shares:
    """Where the seconds of step number `step` go, or of the mean step where it is None.

    Raises UserError where the trace has no steps, or not that one.
    """
    each = shares_of_steps(trace)
    if step is None:
        return mean(each.values())
    if step not in each:
        numbers = ", ".join(str(number) for number in each)
        raise UserError(f"trace: step {step} was not profiled: name one of {numbers}")
    return each[step]


def shares_of_steps(trace: Trace) -> dict[int, Shares]:
    """Where the seconds of each step go, by the step's number."""
    found = phases(trace)
    return {step.number: _of_step(found, step) for step in trace.steps}


def mean(several: Iterable[Shares]) -> Shares:
    """The mean of several steps, part by part."""
    several = tuple(several)
    names = [field.name for field in fields(Shares)]
    return Shares(**{name: float(np.mean([getattr(s, name) for s in several])) for name in names})


def _of_step(found: Phases, step: Step) -> Shares:
    left = np.array([[step.start, step.end]])
    seconds = dict.fromkeys(PARTS, 0.0)

    def take(part: str, time: np.ndarray) -> None:
        nonlocal left
        here = intervals.intersect(left, intervals.clip(time, step.start, step.end))
        seconds[part] += intervals.length(here)
        left = intervals.subtract(left, here)

    for phase, time in found.on_device.items():
        take(phase, time)
    communication = intervals.clip(found.communication, step.start, step.end)
    computing = intervals.clip(found.computing, step.start, step.end)
    hidden = intervals.intersect(communication, computing)
    take("communication", intervals.subtract(communication, computing))
    for phase, time in found.on_host.items():
        take(phase, time)
    seconds["other"] += intervals.length(left)
    return Shares(**seconds, hidden=intervals.length(hidden))
