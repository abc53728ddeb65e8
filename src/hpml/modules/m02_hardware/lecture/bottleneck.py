"""Which part of a training step sets the pace, from the seconds of its phases."""

from collections.abc import Mapping
from typing import NamedTuple

from matplotlib.figure import Figure

from hpml.network.link import parse_rate
from hpml.predict.collectives import all_reduce_bytes
from hpml.ranks.evidence import Evidence
from hpml.trace.launch_timeline import phase_bars

COMPUTE = ("forward", "backward")
PHASES = ("load", *COMPUTE, "communicate", "update")  # as the program has them
LABELS = {"1gbit": "1 Gbit/s", "25mbit": "25 Mbit/s"}
CLEAR = 1.2  # times the second: not to be mistaken


def parts(phases: Mapping[str, float]) -> dict[str, float]:
    """Seconds of input, computing, updating and communicating, from those of a step's phases
    "load", "forward", "backward", "update" and "communicate"."""
    return {
        "loading": phases["load"],
        "forward and backward": sum(phases[name] for name in COMPUTE),
        "the update": phases["update"],
        "communicating": phases["communicate"],
    }


def largest(phases: Mapping[str, float]) -> str:
    """The part that takes the most time."""
    seconds = parts(phases)
    return max(seconds, key=seconds.get)


class Found(NamedTuple):
    """The largest part over a fast and over a slow link, and its share of the step. `held`: it is
    computing, then communicating, and neither is to be mistaken."""

    held: bool
    fast: str
    fast_share: float
    slow: str
    slow_share: float


def found(fast: Mapping[str, float], slow: Mapping[str, float]) -> Found:
    """From the phases of a step over a fast and over a slow link."""
    one, two = largest(fast), largest(slow)
    shares = [parts(step)[name] / sum(step.values()) for step, name in ((fast, one), (slow, two))]
    expected = (one, two) == ("forward and backward", "communicating")
    return Found(expected and _clear(fast) and _clear(slow), one, shares[0], two, shares[1])


def picture(steps: Mapping[str, Mapping[str, float]], gradients: int) -> Figure:
    """A bar for each link of `steps`, which has the seconds of a step's phases on two ranks.

    `gradients`: bytes that the two add up, for the least seconds that the link allows.
    """
    slowest = list(steps.values())[-1]
    share = slowest["communicate"] / sum(slowest.values())
    labels = {link: LABELS.get(link, link) for link in steps}
    return phase_bars(
        {labels[link]: {name: step[name] for name in PHASES} for link, step in steps.items()},
        {labels[link]: 8 * all_reduce_bytes(2, gradients) / parse_rate(link) for link in steps},
        title=f"Over {list(labels.values())[-1]}, communicating is {share:.0%} of the step",
        bounded="communicate",
    )


def memory(run: Evidence) -> str:
    """The most memory that a rank held, in words."""
    held = [rank.peak_bytes for rank in run.ranks if rank.peak_bytes is not None]
    if not held:
        return "memory: this system does not count it"
    return (
        f"memory: a rank held at most {max(held) / 1e6:,.0f} MB, freed memory that it keeps among "
        "them (section 11 leaves that out)"
    )


def _clear(phases: Mapping[str, float]) -> bool:
    first, second = sorted(parts(phases).values(), reverse=True)[:2]
    return first > CLEAR * second
