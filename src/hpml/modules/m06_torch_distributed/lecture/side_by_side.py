"""The frameworks' scripts on one problem: the fewest lines, and whether one is the quickest."""

from collections.abc import Mapping
from dataclasses import dataclass

from hpml.frameworks.run import Outcome

MARGIN = 1.2  # times the speed: less means nothing, where each was measured once, for seconds


@dataclass(frozen=True)
class Comparison:
    """Of the scripts on several ranks, by name. Nothing is said of accuracies: one process sees
    half the images, and the others draw other weights."""

    held: bool  # all took the same number of steps
    shortest: list[str]  # those with the fewest lines
    quickest: str
    ahead: float  # times as quick as the next; 1.0 without one
    close: list[str]  # those that are slower by less than MARGIN
    gain: float  # times the images/s of one process that DDP has


def compare(
    results: Mapping[str, Outcome], lines: Mapping[str, int], alone: str, ddp: str
) -> Comparison:
    """Of outcomes and changed lines by name; `alone` is one process and `ddp` DDP, in PyTorch."""
    many = {name: one for name, one in results.items() if one.ranks > 1}
    fewest = min(lines[name] for name in many)
    rate = {name: one.images_per_second for name, one in results.items()}
    quickest, *others = sorted(many, key=lambda name: -rate[name])
    return Comparison(
        held=len({one.steps for one in many.values()}) == 1,
        shortest=[name for name in many if lines[name] == fewest],
        quickest=quickest,
        ahead=rate[quickest] / rate[others[0]] if others else 1.0,
        close=[name for name in others if rate[quickest] < MARGIN * rate[name]],
        gain=rate[ddp] / rate[alone],
    )
