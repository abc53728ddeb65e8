"""The picture of an answer that is an all-reduce: who holds what after each step."""

import io
from collections.abc import Callable

from hpml.answer import as_python
from hpml.checks.contract import Check, Picture


def all_reduce_picture(function: str, *, in_place: bool) -> Callable[[Check, str], Picture]:
    """For `Check.picture`: launch the answer's `function` on four ranks once more, and draw it.

    With `in_place` the tensor becomes the sum, otherwise what the function returns is. The picture
    raises ValueError where the answer's messages cannot be matched.
    """

    def picture(check: Check, source: str) -> Picture:
        from hpml.trace.holdings import watch  # imports Matplotlib, so only here
        from hpml.trace.ring_picture import message, who_holds_what

        evidence = watch(
            as_python(source), function, in_place=in_place, name=check.id, rules=check.rules
        )
        image = io.BytesIO()
        who_holds_what(evidence).savefig(image, format="png", dpi=110, facecolor="white")
        return Picture(image.getvalue(), message(evidence))

    return picture
