"""The picture of an answer in training: what two ranks send in a step, beside their computing."""

from collections.abc import Callable
from typing import Any

from hpml.checks.contract import Check, Picture
from hpml.checks.kits.pictured import at_work, png
from hpml.ranks.evidence import Evidence

BEGIN, END, DONE = "backward begins", "backward ends", "all have arrived"


def step_picture_of(
    train: Callable[..., Any],
    title: Callable[[Evidence], str],
    words: str,
    *,
    since: str = BEGIN,
    until: str = DONE,
) -> Callable[[Check, str], Picture]:
    """For `Check.picture`: `train(answer, None)` takes some steps on two ranks behind links of
    1 Gbit/s and marks `since` and `until` in each, and END after backward. The quickest is drawn,
    below its `title`."""

    def picture(check: Check, source: str) -> Picture:
        from hpml.trace.launch_timeline import timeline  # with Matplotlib
        from hpml.trace.repetition import quickest

        evidence = at_work(check, source, train, [None] * 2, link="1gbit")
        shown = quickest(evidence, since=since, until=until)
        return Picture(png(timeline(shown, title=title(shown))), words)

    return picture


def beside_backward(what: str) -> Callable[[Evidence], str]:
    """A title: how many of the messages, which are `what`, leave before rank 0's backward ends."""

    def title(shown: Evidence) -> str:
        from hpml.trace.repetition import issued_between

        rank = shown.ranks[0]
        early = issued_between(rank, BEGIN, END)
        end = next(mark.at for mark in rank.marks if mark.name == END)
        waited = [call for call in early if call.waited is not None and call.waited <= end]
        sentence = f"{len(early)} of {len(rank.calls)} {what} leave while backward is at work, "
        return sentence + f"and it waits for {len(waited) or 'none'} of them"

    return title
