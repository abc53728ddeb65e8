"""What is concluded from accuracies over the batch, and over the rate at the largest batch."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hpml.modules.m08_case_studies.lecture.large_batch import Curves, Seeds

FALL = 0.05  # an accuracy has fallen when it is so much below that with the smallest batch
FAR = 0.10


def mean(accuracies: Seeds) -> float:
    """Over the seeds."""
    return sum(accuracies) / len(accuracies)


def limit(curve: Mapping[float, Seeds], fall: float = FALL) -> int:
    """The largest batch up to which no mean is more than `fall` below that of the smallest."""
    found = base = min(curve)
    for batch in sorted(curve):
        if mean(curve[batch]) < mean(curve[base]) - fall:
            break
        found = batch
    return int(found)


def headline_of_limits(curves: Curves) -> str:
    """The message of a picture of them."""
    plain = next(iter(curves))
    _, batches, further, *_ = limits(curves)
    ends = f"The {plain} keeps the accuracy up to a batch of {batches[plain]}"
    if not further:
        return f"{ends}, and no other goes further"
    best = max(batches[name] for name in further)
    return f"{ends}; {listed([n for n in further if batches[n] == best])} up to {best}"


def headline_of_rates(tuned: Curves, batch: int) -> str:
    """The message of a picture of them."""
    best = {name: max(map(mean, curve.values())) for name, curve in tuned.items()}
    shown = ", ".join(f"{name} {100 * accuracy:.0f} %" for name, accuracy in best.items())
    return f"A batch of {batch} with the best of these rates: {shown}"


class Limits(NamedTuple):
    """By rule: up to which batch it keeps the accuracy; which rules go further than the first, and
    which are `within` it at the largest batch. `apart`: how far seeds differ at the smallest."""

    held: bool
    batches: Mapping[str, int]
    moved: Sequence[str]
    within: Sequence[str]
    apart: float


def limits(curves: Curves) -> Limits:
    """Up to which batch each rule keeps the accuracy, the linear rule first.

    Held where the linear rule's is lost at the largest batch and seeds differ by less than what
    counts as a fall, whatever the other rules do.
    """
    plain, *others = curves
    base, most = min(curves[plain]), max(curves[plain])
    batches = {name: limit(curve) for name, curve in curves.items()}
    moved = [name for name in others if batches[name] > batches[plain]]
    within = [name for name in curves if batches[name] == most]
    apart = max(spread(curve[base]) for curve in curves.values())
    fell = mean(curves[plain][most]) < mean(curves[plain][base]) - FAR
    return Limits(fell and apart < FALL, batches, moved, within, apart)


class Rates(NamedTuple):
    """The `best` rate's accuracies by optimizer, plain SGD first. All seeds of those `above` are
    above all of SGD's, on average by up to `more`. Of what the linear rule `lost`, SGD's best rate
    brings `back` so much."""

    held: bool
    best: Mapping[str, Seeds]
    above: Sequence[str]
    more: float
    lost: float
    back: float


def rates(tuned: Curves, curves: Curves) -> Rates:
    """What the best rate brings at the largest batch, plain SGD first in `tuned`.

    `curves` has the rules' own rates, the linear rule first. Held where another rate for SGD brings
    much of what the linear rule had lost, and not all, whether the other optimizers do more or not.
    """
    by_rule = next(iter(curves.values()))
    whole, left = mean(by_rule[min(by_rule)]), mean(by_rule[max(by_rule)])
    best = {name: max(curve.values(), key=mean) for name, curve in tuned.items()}
    plain, *others = best
    above = [name for name in others if min(best[name]) > max(best[plain])]
    more = max(mean(best[name]) for name in others) - mean(best[plain])
    back = mean(best[plain]) - left
    held = back > FAR and max(map(mean, best.values())) < whole - FALL
    return Rates(held, best, above, more, whole - left, back)


def spread(accuracies: Seeds) -> float:
    """Of the seeds, from the worst to the best."""
    return max(accuracies) - min(accuracies)


def percent(accuracies: Seeds) -> str:
    """Their mean: "45.1 %"."""
    return f"{100 * mean(accuracies):.1f} %"


def listed(names: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
