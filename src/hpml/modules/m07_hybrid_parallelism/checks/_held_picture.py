"""The picture of an answer that shares a model's memory out: what one rank holds, and one of 4."""

from collections.abc import Callable, Sequence
from typing import Any

from hpml.checks.contract import Check, Picture
from hpml.checks.kits.pictured import at_work, png

RANKS, SEED = 4, 7


def held_picture_of(
    train: Callable[..., Any], inputs: Callable[[int, int], Sequence[Any]], what: str
) -> Callable[[Check, str], Picture]:
    """For `Check.picture`: `train(answer, inputs(seed, ranks)[rank])` on one rank and on four, with
    their tensors counted by kind. `what` is trained."""

    def picture(check: Check, source: str) -> Picture:
        from hpml.modules.m07_hybrid_parallelism.lecture.memory_picture import memory_picture

        launches = {
            name: at_work(check, source, train, inputs(SEED, ranks), live=True)
            for name, ranks in (("one rank", 1), (f"{RANKS} ranks", RANKS))
        }
        alone, shared = (
            max(rank.live.peak for rank in each.ranks if rank.live) for each in launches.values()
        )
        title = f"At its peak one of your {RANKS} ranks holds "
        title += f"{shared / alone:.0%} of what one alone holds"
        words = f"What ranks hold at their peaks with your answer, by kind: {what}"
        return Picture(png(memory_picture(launches, title=title)), words)

    return picture
