"""Images/s predicted over ranks, with points and interval; beside it, where a step's time goes."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from hpml.predict.published_predicted import MEDIAN, Table
from hpml.predict.scaling import Prediction
from hpml.predict.scaling_fit import Fitted, Interval, Point
from hpml.trace.layout import PALETTE

LOOKS = {  # of a step's parts: label, colour, hatch
    "compute": ("compute", PALETTE[1], ""),
    "exposed": ("communication that nothing hides", PALETTE[5], "///"),
    "straggling": ("waiting for the slowest rank", PALETTE[2], "..."),
    "input": ("waiting for input", PALETTE[3], "xx"),
}


def scaling_picture(
    fitted: Fitted,
    ranks: Sequence[int],
    unseen: Sequence[Point] = (),
    *,
    points: str = "published",
    title: str = "",
) -> Figure:
    """Left: images/s of each rank over `ranks`, predicted, with the interval of 90 in 100, the
    points that were fitted, and points that were `unseen`. Right: the parts of each step.

    `ranks` in ascending order; `points` is how the points came to be. Images/s per rank begin at 0,
    and a level line is perfect scaling.
    """
    predicted = [fitted.predict(n) for n in ranks]
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    curve, parts = figure.subplots(1, 2, width_ratios=(1.15, 1))
    _curve(curve, fitted, predicted, [fitted.interval(n) for n in ranks], unseen, points)
    _parts(parts, predicted)
    figure.suptitle(title or _message(predicted[-1]), fontsize=11, x=0.01, ha="left")
    return figure


def predicted_picture(tables: Sequence[Table], *, title: str = "") -> Figure:
    """Each predicted row of published tables as a point: its efficiency predicted, over published.

    On the diagonal both agree; the band is ± MEDIAN. Rows of tables that were missed are hollow.
    """
    figure = Figure(figsize=(5.6, 5.0), layout="constrained")
    axes = figure.subplots()
    ends = (0.0, 1.05)
    axes.plot(ends, ends, "k-", linewidth=1)
    low, high = ([end * (1 + sign * MEDIAN) for end in ends] for sign in (-1, 1))
    axes.fill_between(ends, low, high, color="0.85", label=f"± {MEDIAN:.0%}")
    for met, colour, label in ((True, PALETTE[5], "table met"), (False, "white", "table missed")):
        rows = [
            (row, row.row.ranks * table.fitted.training.images_per_s)
            for table in tables
            if table.met == met
            for row in table.test
        ]
        axes.plot(
            [row.published / perfect for row, perfect in rows],
            [row.predicted / perfect for row, perfect in rows],
            "o",
            markerfacecolor=colour,
            markeredgecolor="black",
            label=f"{label}: {len(rows)} rows",
        )
    axes.set(xlim=ends, ylim=ends, xlabel="efficiency, published", ylabel="efficiency, predicted")
    axes.set_aspect("equal")
    axes.legend(fontsize=8, loc="upper left", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    met = sum(table.met for table in tables)
    axes.set_title(title or f"{met} of {len(tables)} tables predicted", loc="left", fontsize=11)
    return figure


def _curve(
    axes: Axes,
    fitted: Fitted,
    predicted: Sequence[Prediction],
    intervals: Sequence[Interval],
    unseen: Sequence[Point],
    origin: str,
) -> None:
    ranks = [one.ranks for one in predicted]
    low = [one.low / n for one, n in zip(intervals, ranks, strict=True)]
    high = [one.high / n for one, n in zip(intervals, ranks, strict=True)]
    alone = fitted.training.images_per_s
    axes.axhline(alone, color="0.5", linestyle=":", linewidth=1)
    axes.text(ranks[-1], alone * 1.02, "  nothing lost", fontsize=8, color="0.35", ha="right")
    axes.fill_between(ranks, low, high, color="0.85", label="90 in 100 lie here")
    axes.plot(ranks, [one.images_per_s / one.ranks for one in predicted], "k-", label="predicted")
    look = {"linestyle": "none", "markeredgecolor": "black", "markersize": 7, "zorder": 3}
    for points, marker, colour, label in (
        (fitted.points, "o", "black", f"{origin}, fitted"),
        (unseen, "D", "white", f"{origin}, not seen by the fit"),
    ):
        if points:
            values = [one.images_per_s / one.ranks for one in points]
            at = [one.ranks for one in points]
            axes.plot(at, values, marker=marker, markerfacecolor=colour, label=label, **look)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(_ticks(ranks)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda n, _: f"{n:.0f}"))
    axes.set_ylim(0, 1.15 * alone)
    axes.set_xlabel("ranks")
    axes.set_ylabel("images/s of each rank")
    axes.legend(fontsize=8, loc="lower left", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def _parts(axes: Axes, predicted: Sequence[Prediction]) -> None:
    shown = [one for one in predicted if one.ranks in _ticks([one.ranks for one in predicted])]
    bottom = [0.0] * len(shown)
    for part, (label, colour, hatch) in LOOKS.items():
        height = [1e3 * getattr(one.step, part) for one in shown]
        if part == "input" and not any(height):
            continue
        look = {"color": colour, "hatch": hatch, "edgecolor": "black", "linewidth": 0.6}
        axes.bar(range(len(shown)), height, bottom=bottom, width=0.7, label=label, **look)
        bottom = [below + more for below, more in zip(bottom, height, strict=True)]
    axes.set_xticks(range(len(shown)), [str(one.ranks) for one in shown])
    axes.set_ylim(0, 1.45 * max(bottom))  # room for the legend
    axes.set_xlabel("ranks")
    axes.set_ylabel("a step, ms")
    axes.legend(fontsize=8, loc="upper left", frameon=False, reverse=True)
    axes.spines[["top", "right"]].set_visible(False)


def _ticks(ranks: Sequence[int]) -> list[int]:
    """At most eight, the last one among them."""
    every = -(-len(ranks) // 8)
    return list(ranks[::-1][::every][::-1])


def _message(last: Prediction) -> str:
    parts = {name: share for name, share in last.step.shares.items() if name != "compute"}
    most = max(parts, key=parts.__getitem__)
    return (
        f"Each of {last.ranks} ranks keeps {last.efficiency:.0%} of its images/s; "
        f"most is lost to {LOOKS[most][0]}"
    )
