"""Operators as bars: self time, and beside it the total time, which counts calls within twice."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from hpml.modules.m03_profiling.lecture.operators import Operator
from hpml.trace.layout import PALETTE


def operators_picture(rows: Sequence[Operator], *, title: str = "", limit: int = 10) -> Figure:
    """Two bars for each of the first `limit` rows, self and total, in milliseconds.

    Raises ValueError where there is no row.
    """
    if not rows:
        raise ValueError("no operator was recorded, so there is nothing to draw")
    shown = rows[:limit]
    figure = Figure(figsize=(9, 1.4 + 0.36 * len(shown)), layout="constrained")
    axes = figure.subplots()
    places = range(len(shown))
    total = [1e3 * row.seconds for row in shown]
    own = [1e3 * row.self_seconds for row in shown]
    axes.barh(places, total, height=0.7, label="total: with what it calls",
              facecolor="white", edgecolor="black", hatch="////", linewidth=0.8)  # fmt: skip
    axes.barh(places, own, height=0.42, label="self: without what it calls",
              facecolor=PALETTE[5], edgecolor="black", linewidth=0.8)  # fmt: skip
    axes.set_yticks(places, [_label(row) for row in shown], fontsize="small")
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "left", "right"]].set_visible(False)
    axes.set_xlabel("time in all calls (ms)")
    axes.set_title(title, loc="left", fontsize=11)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def _label(row: Operator) -> str:
    name = row.name.replace("autograd::engine::evaluate_function: ", "autograd: ")
    name = name if len(name) <= 40 else name[:37] + "..."
    return f"{name} {row.shapes}".strip()[:70] + f"  × {row.count}"
