"""The picture of an answer to moe_all_to_all: whose tokens which expert takes, or drops."""

from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from hpml.checks.contract import Check, Picture
from hpml.checks.kits.pictured import at_work, png
from hpml.modules.m07_hybrid_parallelism.checks._expert_tokens import (
    CALLS,
    applied,
    inputs,
    run_forward,
    serve,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RANKS, SEED = 4, 7
CALL = next(n for n, (fits, *_) in enumerate(CALLS["forward"]) if not fits)  # tokens are dropped
GAP = 0.25  # between the experts of two ranks; an expert is 1 wide
GREY = "#999999"


def tokens_picture(check: Check, source: str) -> Picture:
    """For `Check.picture`. Raises ValueError where an output has no row for each token."""
    given = inputs(SEED, RANKS)["forward"]
    sent, server = serve(given, "forward")
    evidence = at_work(check, source, run_forward, sent, serve=server)
    each = len(given[0]["experts"])
    outputs = [rank.value[CALL] for rank in evidence.ranks]
    choices = [own["calls"][CALL][1] for own in given]
    rows: dict[int, list[int]] = {expert: [] for expert in range(RANKS * each)}
    for rank in evidence.ranks:
        for expert, count in applied(rank.asked, "forward")[CALL]:
            rows[expert].append(count)
    counts = counted(choices, outputs, RANKS * each)
    figure = drawn(*counts, list(rows.values()), given[0]["calls"][CALL][3])
    words = (
        f"How many tokens of each of {RANKS} ranks chose each of {RANKS * each} experts, and how "
        "many of them have an output in your answer: the others were dropped"
    )
    return Picture(png(figure), words)


def counted(
    choices: list[Tensor], outputs: list[Tensor], experts: int
) -> tuple[list[list[int]], list[list[int]]]:
    """By rank and expert, how many tokens chose it, and how many of these have an output.

    A dropped token's row is zero. Raises ValueError for an output without a row for each token.
    """
    count = partial(torch.bincount, minlength=experts)
    taken = []
    for choice, output in zip(choices, outputs, strict=True):
        if not isinstance(output, Tensor) or output.dim() != 2 or len(output) != len(choice):
            raise ValueError("not an output for each token")
        taken.append(count(choice[(output != 0).any(1)]).tolist())
    return [count(choice).tolist() for choice in choices], taken


def drawn(
    chose: list[list[int]], taken: list[list[int]], rows: list[list[int]], capacity: int
) -> "Figure":
    """`chose[rank][expert]` tokens, of which `taken[rank][expert]` have an output; the experts were
    applied to `rows[expert]`, a number for each time."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    ranks, experts = len(chose), len(rows)
    each = experts // ranks
    places = [expert + GAP * (expert // each) for expert in range(experts)]
    figure = Figure(figsize=(9, 2.9 + 0.45 * ranks), layout="constrained")
    above, below = figure.subplots(2, sharex=True, height_ratios=(0.4 + 0.45 * ranks, 1.5))
    _draw_cells(above, places, chose, taken)
    _draw_queues(below, places, chose, taken, capacity)
    labels = [
        f"{expert}\n{sum(own)}" + f" in {len(own)} calls" * (len(own) > 1)
        for expert, own in enumerate(rows)
    ]
    below.set_xticks([place + 0.5 for place in places], labels)
    below.set_xlim(-0.05, places[-1] + 1.05)
    below.set_xlabel("expert, and to how many rows its rank applied it", fontsize=9)
    for axes in (above, below):
        axes.tick_params(length=0, labelsize=8)
    handles = [
        Patch(facecolor="white", edgecolor=GREY, label="white: dropped"),
        Patch(facecolor="none", edgecolor="black", linewidth=1.6, label="stays on its rank"),
    ]
    figure.legend(handles=handles, loc="outside lower left", ncols=2, frameon=False, fontsize=8)
    all_chose, all_taken = (sum(map(sum, table)) for table in (chose, taken))
    at_home = sum(sum(own[rank * each : (rank + 1) * each]) for rank, own in enumerate(taken))
    title = f"{all_taken} of {all_chose} tokens have an output, {all_taken - at_home} of them from "
    above.set_title(title + "an expert on another rank", loc="left")
    return figure


def _draw_cells(
    axes: "Axes", places: list[float], chose: list[list[int]], taken: list[list[int]]
) -> None:
    """A row for each rank: of its tokens for each expert, the coloured part is not dropped."""
    from hpml.trace.layout import tint

    each = len(places) // len(chose)
    for rank, (wanted, got) in enumerate(zip(chose, taken, strict=True)):
        for expert, left in enumerate(places):
            axes.barh(rank, got[expert] / max(wanted[expert], 1), 0.84, left=left, color=tint(rank))
            here = expert // each == rank
            edge = {"edgecolor": "black" if here else GREY, "linewidth": 1.6 if here else 0.6}
            axes.barh(rank, 1, 0.84, left=left, color="none", zorder=2 + here, **edge)
            said = f"{got[expert]} of {wanted[expert]}"
            axes.text(left + 0.5, rank, said, ha="center", va="center", fontsize=8, zorder=4)
        middle = (places[rank * each] + places[rank * each + each - 1] + 1) / 2
        axes.text(middle, -0.56, f"experts of rank {rank}", ha="center", va="bottom", fontsize=8)
    axes.set_ylim(len(chose) - 0.5, -1)
    axes.set_yticks(range(len(chose)), [f"tokens of rank {rank}" for rank in range(len(chose))])
    axes.spines[:].set_visible(False)


def _draw_queues(
    axes: "Axes",
    places: list[float],
    chose: list[list[int]],
    taken: list[list[int]],
    capacity: int,
) -> None:
    """Each expert's tokens, those of one rank on those of another, and its capacity."""
    from hpml.trace.layout import tint

    for expert, left in enumerate(places):
        high = 0
        for rank, own in enumerate(taken):
            axes.bar(left + 0.5, own[expert], 0.8, bottom=high, color=tint(rank))
            high += own[expert]
        dropped = sum(own[expert] for own in chose) - high
        axes.bar(left + 0.5, dropped, 0.8, bottom=high, color="white", edgecolor=GREY, lw=0.6)
    axes.axhline(capacity, color="black", linewidth=1, linestyle="--")
    place = axes.get_yaxis_transform()
    axes.text(1, capacity, f" capacity {capacity}", va="center", fontsize=8, transform=place)
    axes.set_ylabel("tokens", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
