"""What is concluded from accuracies over the batch, and over the rate at the largest batch."""

from collections.abc import Mapping, Sequence

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
    plain, *others = curves
    limits = {name: limit(curve) for name, curve in curves.items()}
    further = [name for name in others if limits[name] > limits[plain]]
    ends = f"The {plain} keeps the accuracy up to a batch of {limits[plain]}"
    if not further:
        return f"{ends}, and no other goes further"
    best = max(limits[name] for name in further)
    return f"{ends}; {_list([n for n in further if limits[n] == best])} up to {best}"


def headline_of_rates(tuned: Curves, batch: int) -> str:
    """The message of a picture of them."""
    best = {name: max(map(mean, curve.values())) for name, curve in tuned.items()}
    shown = ", ".join(f"{name} {100 * accuracy:.0f} %" for name, accuracy in best.items())
    return f"A batch of {batch} with the best of these rates: {shown}"


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
    lost = mean(by_rule[base]) - mean(by_rule[most])
    back = mean(best[plain]) - mean(by_rule[most])
    rate = (
        f"From {base} to {most} the linear rule lost {100 * lost:.1f} points, and another rate for "
        f"the same optimizer brings back {100 * back:.1f} of them"
    )
    what = (
        f"All seeds of {_list(above)} are above every seed of {plain}, on average by up to "
        f"{100 * more:.1f} points: that is the optimizer."
        if above
        else f"No other optimizer is clear of the seeds of {plain}: it was the rate, and no more."
    )
    return (
        back > FAR and max(map(mean, best.values())) < mean(by_rule[base]) - FALL,
        f"**Answer.** {seen[0].upper()}{seen[1:]}. {rate}. {what} None of these rates "
        "brings back the rest.",
        f"{seen}. {rate}: on these images the rate alone is "
        f"{'not what it takes' if back <= FAR else 'nearly all that it takes'}.",
    )


def _percent(accuracies: Seeds) -> str:
    return f"{100 * mean(accuracies):.1f} %"


def _spread(accuracies: Seeds) -> float:
    return max(accuracies) - min(accuracies)


def _list(names: Sequence[str]) -> str:
    return " and ".join(names) if len(names) < 3 else f"{', '.join(names[:-1])} and {names[-1]}"
