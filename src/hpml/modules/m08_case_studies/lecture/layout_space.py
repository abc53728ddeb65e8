"""All layouts of a model on a cluster, as bytes and seconds: which fit, and how far apart they are.

The layouts are those of `hpml.predict.which_split`.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from hpml.predict.which_split import RESERVE, Layout, fitting

FITS, TOO_LARGE, BEST = "#0072B2", "#B0B0B0", "#D55E00"


def spread(found: Sequence[Layout], memory: float) -> float:
    """The seconds of the slowest layout that fits, over those of the fastest."""
    times = [one.seconds for one in fitting(found, memory)]
    return max(times) / min(times)


class Search(NamedTuple):
    """Of `layouts` so many are `fitting`. The fastest of these on the `fast` network takes
    `carried` seconds on the `slow` one. `spreads` are those of both networks, the fast one first.
    """

    held: bool
    layouts: int
    fitting: int
    fast: Layout
    slow: Layout
    carried: float
    spreads: tuple[float, float]


def search(found: Mapping[str, Sequence[Layout]], memory: float) -> Search:
    """What the search is worth, for the layouts on a fast network and on a slow one, in order."""
    on_fast, on_slow = found.values()
    fast, slow = _fastest(on_fast, memory), _fastest(on_slow, memory)
    carried = next(one for one in on_slow if _sizes(one) == _sizes(fast)).seconds
    spreads = spread(on_fast, memory), spread(on_slow, memory)
    held = carried > slow.seconds and spreads[1] > spreads[0]
    fit = len(fitting(on_slow, memory))
    return Search(held, len(on_slow), fit, fast, slow, carried, spreads)


def _fastest(found: Sequence[Layout], memory: float) -> Layout:
    return min(fitting(found, memory), key=lambda one: one.seconds)


def _sizes(one: Layout) -> tuple[int, ...]:
    return one.data, one.pipeline, one.tensor, one.stage, one.micro_batches


def space_picture(found: Mapping[str, Sequence[Layout]], memory: float) -> Figure:
    """A dot for each layout: gigabytes of a rank, and seconds of a step, both logarithmic.

    Right of the line, the memory less its reserve, nothing fits. A panel for each network, with the
    same axes.
    """
    figure = Figure(figsize=(9, 4), layout="constrained")
    panels = figure.subplots(1, len(found), sharex=True, sharey=True, squeeze=False)[0]
    for axes, (name, all_) in zip(panels, found.items(), strict=True):
        small = fitting(all_, memory)
        large = [one for one in all_ if one not in small]
        for some, colour, marker in ((large, TOO_LARGE, "x"), (small, FITS, "o")):
            places = [one.nbytes / 1e9 for one in some], [one.seconds for one in some]
            label = f"{len(some)} {'fit' if some is small else 'do not fit'}"
            axes.scatter(*places, s=18, color=colour, marker=marker, alpha=0.7, label=label)
        best = _fastest(all_, memory)
        at = best.nbytes / 1e9, best.seconds
        axes.plot(*at, "*", color=BEST, markersize=15, markeredgecolor="black", label=str(best))
        axes.axvline((1 - RESERVE) * memory / 1e9, color="black", linestyle="--", linewidth=1)
        axes.set(xscale="log", yscale="log", title=name, xlabel="memory of a rank (GB)")
        axes.legend(fontsize=8, loc="upper left")
    top = max(one.seconds for all_ in found.values() for one in all_)
    panels[0].set_ylim(top=8 * top)  # room for the legend
    panels[0].set_ylabel("a step (s)")
    spreads = ", ".join(
        f"{spread(all_, memory):.3g} times with {name}" for name, all_ in found.items()
    )
    figure.suptitle(f"The slowest layout that fits, over the fastest: {spreads}", fontsize=11)
    return figure
