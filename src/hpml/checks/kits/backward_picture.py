"""The picture of an answer that sends gradients: its messages beside backward, on two ranks."""

from collections.abc import Callable
from typing import Any

from hpml.checks.contract import Check, Picture
from hpml.checks.kits.pictured import at_work, png
from hpml.ranks.evidence import Evidence

BEGIN, END, DONE = "backward begins", "backward ends", "all have arrived"


def backward_picture_of(
    train: Callable[..., Any], what: str, words: str
) -> Callable[[Check, str], Picture]:
    """For `Check.picture`: `train(answer, None)` takes some steps on two ranks behind links of
    1 Gbit/s and marks BEGIN, END and DONE in each; the quickest is drawn. Its messages are `what`.
    """

    def picture(check: Check, source: str) -> Picture:
        from hpml.trace.launch_timeline import timeline  # with Matplotlib
        from hpml.trace.repetition import issued_between, quickest

        evidence = at_work(check, source, train, [None] * 2, link="1gbit")
        shown = quickest(evidence, since=BEGIN, until=DONE)
        calls = shown.ranks[0].calls
        early = issued_between(shown.ranks[0], BEGIN, END)
        waited = [call for call in early if call.waited is not None and call.waited <= end(shown)]
        title = f"{len(early)} of {len(calls)} {what} leave while backward is at work, "
        title += f"and it waits for {len(waited) or 'none'} of them"
        return Picture(png(timeline(shown, title=title)), words)

    return picture


def end(evidence: Evidence) -> float:
    """When rank 0's backward ended."""
    return next(mark.at for mark in evidence.ranks[0].marks if mark.name == END)
