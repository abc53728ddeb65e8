"""The frameworks' scripts on one problem: the fewest lines, and whether one is the quickest."""

from collections.abc import Mapping

from hpml.frameworks.run import Outcome

MARGIN = 1.2  # times the speed: less means nothing, where each was measured once, for seconds


def finding(
    results: Mapping[str, Outcome], lines: Mapping[str, int], alone: str, ddp: str
) -> tuple[bool, str, str]:
    """What `hpml.publish.conclude` takes, of outcomes and changed lines by name.

    `alone` and `ddp` are the names of one process and of DDP, both in PyTorch. Nothing is said of
    accuracies: one process sees half the images, and the others draw other weights.
    """
    many = {name: one for name, one in results.items() if one.ranks > 1}
    fewest = min(lines[name] for name in many)
    shortest = [name for name in many if lines[name] == fewest]
    first, *others = sorted(many, key=lambda name: -many[name].images_per_second)
    speed = many[first].images_per_second
    ahead = speed / many[others[0]].images_per_second if others else 1.0
    close = [name for name in others if speed < MARGIN * many[name].images_per_second]
    quickest = (
        f"{first}, {ahead:.2f} times as quick as the next"
        if others and not close
        else f"no one; {' and '.join([first, *close])} are within {MARGIN:g} times of each other"
    )
    gain = results[ddp].images_per_second / results[alone].images_per_second
    return (
        len({one.steps for one in many.values()}) == 1,
        f"Fewest lines: {' and '.join(shortest)}. Quickest: {quickest}. DDP has {gain:.2f} times "
        "the images/s of PyTorch alone"
        + ("; more than twice is no gain, but the error of so short a measurement." * (gain > 2))
        + "." * (gain <= 2),
        "the scripts did not take the same number of steps.",
    )
