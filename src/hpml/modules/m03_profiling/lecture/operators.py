"""Which operators and which kernels the time goes to.

The total time of an operator has that of all operators it calls in it, so totals cannot be added
up: `aten::linear` is in the list, and so is the `aten::addmm` that it calls. Self times can: they
are the time in an operator and in no other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from hpml.modules.m03_profiling.lecture.nesting import nesting
from hpml.trace.layout import PALETTE
from hpml.trace.profiler.trace import Trace


@dataclass(frozen=True)
class Operator:
    """All calls of one operator, or all runs of one kernel."""

    name: str
    shapes: str  # of its inputs, "[[64, 512], [512]]"; "" where they were not asked for
    count: int
    self_seconds: float  # without what it calls
    seconds: float  # with it; a call inside another of the same name is counted once


def operators(trace: Trace, *, by_shape: bool = False) -> tuple[Operator, ...]:
    """The operators that the processor ran, the one with the largest self time first.

    `by_shape`: calls with inputs of different shapes apart (`record_shapes=True`).
    """
    return _by_name(trace, trace.of("cpu_op"), by_shape)


def _by_name(trace: Trace, which: np.ndarray, by_shape: bool) -> tuple[Operator, ...]:
    found = nesting(trace)
    chosen = np.flatnonzero(which)
    shape = trace.shape[chosen] if by_shape and trace.shape is not None else 0 * chosen
    keys, group = np.unique(np.stack([trace.name[chosen], shape], 1), axis=0, return_inverse=True)
    group = group.reshape(-1)
    outermost = trace.duration[chosen] * ~found.repeated[chosen]
    sums = [
        np.bincount(group, weights=values, minlength=len(keys)).tolist()
        for values in (np.ones(len(chosen)), found.self_seconds[chosen], outermost)
    ]
    rows = (
        Operator(
            trace.names[name], trace.shapes[shape] if by_shape and trace.shapes else "", int(n), *s
        )
        for (name, shape), n, *s in zip(keys.tolist(), *sums, strict=True)
    )
    return tuple(sorted(rows, key=lambda row: (-row.self_seconds, row.name, row.shapes)))


def table(rows: Sequence[Operator], limit: int = 10) -> str:
    """The first rows as lines of text, in milliseconds, with the share of all self time."""
    every = sum(row.self_seconds for row in rows) or 1.0
    width = max([len(_label(row)) for row in rows[:limit]] + [8])
    lines = [f"{'':<{width}}{'calls':>8}{'self (ms)':>12}{'share':>9}{'total (ms)':>13}"]
    for row in rows[:limit]:
        share = 100 * row.self_seconds / every
        lines.append(
            f"{_label(row):<{width}}{row.count:>8}{1e3 * row.self_seconds:>12.2f}"
            f"{share:>7.1f} %{1e3 * row.seconds:>13.2f}"
        )
    if len(rows) > limit:
        rest = sum(row.self_seconds for row in rows[limit:])
        name = f"{len(rows) - limit} others"
        lines.append(f"{name:<{width}}{'':>8}{1e3 * rest:>12.2f}{100 * rest / every:>7.1f} %")
    return "\n".join(lines)


def picture(rows: Sequence[Operator], *, title: str = "", limit: int = 10) -> Figure:
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
    axes.set_yticks(places, [_short(row) for row in shown], fontsize="small")
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "left", "right"]].set_visible(False)
    axes.set_xlabel("time in all calls (ms)")
    axes.set_title(title, loc="left", fontsize=11)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def _label(row: Operator) -> str:
    name = row.name.removeprefix("autograd::engine::evaluate_function: ")
    name = name if len(name) <= 45 else name[:42] + "..."
    return f"{name} {row.shapes}"[:80].strip()


def _short(row: Operator) -> str:
    name = row.name.replace("autograd::engine::evaluate_function: ", "autograd: ")
    name = name if len(name) <= 40 else name[:37] + "..."
    return f"{name} {row.shapes}".strip()[:70] + f"  × {row.count}"
