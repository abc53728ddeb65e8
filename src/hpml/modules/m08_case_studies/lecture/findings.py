"""What two tries of the lecture show, in a sentence."""

from hpml.train.race import tries
from hpml.train.race.goals import Goal
from hpml.train.race.table import outcome, settings
from hpml.train.race.tries import Try


def of_two(before: Try, after: Try, goal: Goal) -> tuple[bool, str, str]:
    """Which of the two factors of the seconds moved: the images needed, or images/s."""
    for one in (before, after):
        if one.status != tries.REACHED:
            why = f"{settings(one, goal)}: {outcome(one)}"
            return False, "", f"one of the two tries has no time to compare ({why})."
    gain = before.seconds / after.seconds
    rate = after.images_per_second / before.images_per_second
    need = before.images / after.images
    seen = (
        f"{before.seconds:.1f} s became {after.seconds:.1f} s. Images needed: {before.images:,}, "
        f"then {after.images:,}; images/s: {before.images_per_second:,.0f}, then "
        f"{after.images_per_second:,.0f}"
    )
    factors = f"{gain:.1f} = {need:.2f} × {rate:.2f}"
    return (
        gain > 1 and rate > 1 and abs(need - 1) < abs(rate - 1),
        f"**Answer.** {seen}. So the gain is {factors}, and most of it is from images/s: these "
        "switches change the time of a step, and not what a step learns.",
        f"{seen}: the gain is {factors}. The ranks had no core each, or one try just missed the "
        "goal at a test, and reached it an epoch later.",
    )
