"""The picture of an answer to shard_sampler: which rank takes which sample, in each epoch."""

from types import ModuleType
from typing import TYPE_CHECKING

from hpml.checks.contract import Check, Picture
from hpml.checks.kits.pictured import at_work, png

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RANKS, LENGTH, EPOCHS, SEED = 4, 22, 4, 3


def shards_picture(check: Check, source: str) -> Picture:
    """For `Check.picture`. Raises ValueError where a rank yields what is not a sample's index."""
    evidence = at_work(check, source, take, range(RANKS))
    taken = [rank.value for rank in evidence.ranks]
    for epochs in taken:
        if not all(0 <= index < LENGTH for epoch in epochs for index in epoch):
            raise ValueError("not an index of a sample")
    words = (
        f"Which of {RANKS} ranks takes which of {LENGTH} samples in {EPOCHS} epochs, by your "
        "answer: a cell with two numbers is a sample that counts twice"
    )
    return Picture(png(drawn(taken)), words)


def take(answer: ModuleType, rank: int) -> list[list[int]]:
    """On a rank: the indices of each epoch, at most LENGTH of them."""
    from itertools import islice

    sampler = answer.ShardSampler(LENGTH, rank, RANKS, SEED)
    epochs = []
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        epochs.append([int(index) for index in islice(sampler, LENGTH)])
    return epochs


def drawn(taken: list[list[list[int]]], length: int = LENGTH) -> "Figure":
    """`taken[rank][epoch]` are indices below `length`."""
    from matplotlib.figure import Figure

    from hpml.trace.layout import tint

    epochs = range(len(taken[0]))
    figure = Figure(figsize=(9, 0.8 + 0.4 * len(epochs)), layout="constrained")
    axes = figure.subplots()
    twice = 0
    for epoch in epochs:
        for sample in range(length):
            ranks = [r for r, own in enumerate(taken) for index in own[epoch] if index == sample]
            twice += len(ranks) > 1
            for place, rank in enumerate(ranks):
                width = 1 / len(ranks)
                axes.barh(epoch, width, 0.9, left=sample + place * width, color=tint(rank))
                middle = sample + (place + 0.5) * width
                axes.text(middle, epoch, str(rank), ha="center", va="center", fontsize=8)
            if not ranks:
                axes.text(sample + 0.5, epoch, "–", ha="center", va="center", fontsize=8)
    axes.set_xlim(0, length)
    axes.set_ylim(len(epochs) - 0.5, -0.5)
    axes.set_xticks([sample + 0.5 for sample in range(length)], [str(n) for n in range(length)])
    axes.set_yticks(epochs, [f"epoch {epoch}" for epoch in epochs])
    axes.tick_params(length=0, labelsize=8)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("sample, and in its cell the rank that takes it", fontsize=9)
    total = sum(len(own[0]) for own in taken)
    title = f"{length} samples for {len(taken)} ranks: {total} are taken in an epoch"
    more = f", {twice // len(epochs)} of them twice" if twice else ""
    axes.set_title(title + more, loc="left")
    return figure
