"""What is concluded from accuracies over the batch, and over the rate at the largest batch."""

from collections.abc import Mapping, Sequence

from hpml.frameworks.large_batch import Curves, Seeds

FALL = 0.04  # an accuracy has fallen when it is so much below that with the smallest batch
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


def of_limits(curves: Curves) -> tuple[bool, str, str]:
    """For `conclude`: up to which batch each rule keeps the accuracy, the linear rule first.

    It holds where the linear rule's is lost at the largest batch and seeds differ by less than what
    counts as a fall; what the other rules do is in the sentence either way.
    """
    plain, *others = curves
    base, most = min(curves[plain]), max(curves[plain])
    limits = {name: limit(curve) for name, curve in curves.items()}
    apart = max(_spread(curve[base]) for curve in curves.values())
    seen = "; ".join(
        f"{name} up to {limits[name]} ({_percent(curve[base])} with {base}, "
        f"{_percent(curve[most])} with {most})"
        for name, curve in curves.items()
    )
    moved = [name for name in others if limits[name] > limits[plain]]
    kept = [name for name in curves if limits[name] == most]
    sentence = (
        f"**Answer.** Accuracy has fallen by less than {100 * FALL:.0f} points: {seen}. "
        + (f"The limit is moved by: {_list(moved)}. " if moved else "No rule moves the limit. ")
        + (
            f"Still within it with {most}: {_list(kept)}. "
            if kept
            else f"With {most}, no rule keeps it. "
        )
        + f"With {base}, seeds differ by up to {100 * apart:.1f} points."
    )
    return (
        mean(curves[plain][most]) < mean(curves[plain][base]) - FAR and apart < FALL,
        sentence,
        f"accuracy has fallen by less than {100 * FALL:.0f} points: {seen}. Seeds differ by up to "
        f"{100 * apart:.1f} points with {base}: on other images the linear rule may go further.",
    )


def of_rates(tuned: Curves, curves: Curves) -> tuple[bool, str, str]:
    """For `conclude`: what the best rate brings at the largest batch, plain SGD first in `tuned`.

    `curves` has the rules' own rates, the linear rule first. It holds where another rate for SGD
    brings much of what the linear rule had lost, and not all; whether the other optimizers do more
    is in the sentence either way.
    """
    by_rule = next(iter(curves.values()))
    base, most = min(by_rule), max(by_rule)
    best = {name: max(curve.values(), key=mean) for name, curve in tuned.items()}
    plain, *others = best
    seen = (
        f"with {most}, the best of these rates has "
        + ", ".join(f"{_percent(seeds)} by {name}" for name, seeds in best.items())
        + f" (seeds differ by up to {100 * max(map(_spread, best.values())):.1f} points)"
    )
    above = [name for name in others if min(best[name]) > max(best[plain])]
    more = max(mean(best[name]) - mean(best[plain]) for name in others)
    what = (
        f"Above every seed of {plain} are all seeds of {_list(above)}, on average by up to "
        f"{100 * more:.1f} points: that is the optimizer."
        if above
        else f"No other optimizer is clear of the seeds of {plain}: it was the rate, and no more."
    )
    return (
        mean(by_rule[most]) + FAR < mean(best[plain])
        and max(map(mean, best.values())) < mean(by_rule[base]) - FALL,
        f"**Answer.** {seen[0].upper()}{seen[1:]}. The linear rule had {_percent(by_rule[most])}: "
        f"most of the loss was its rate. {what} With a batch of {base} it is "
        f"{_percent(by_rule[base])}, and no rate brings that back.",
        f"{seen}; the linear rule had {_percent(by_rule[most])}, and with {base} "
        f"{_percent(by_rule[base])}.",
    )


def _percent(accuracies: Seeds) -> str:
    return f"{100 * mean(accuracies):.1f} %"


def _spread(accuracies: Seeds) -> float:
    return max(accuracies) - min(accuracies)


def _list(names: Sequence[str]) -> str:
    return " and ".join(names) if len(names) < 3 else f"{', '.join(names[:-1])} and {names[-1]}"
