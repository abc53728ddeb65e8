"""The picture of an answer to choose_layout: its choice among all layouts of one model."""

import io
from typing import Any

from hpml.answer import as_python
from hpml.checks.compare import is_number
from hpml.checks.contract import Check, Picture
from hpml.checks.kits.drawn import Drawn
from hpml.modules.m08_case_studies.checks._layout_legal import KEYS, Table
from hpml.ranks import launch

LIMIT = 10.0  # seconds
# Nothing of this is judged
MODEL = {"layers": 24, "heads": 16, "width": 2048, "sequences": 24, "tokens": 1024}
CLUSTER = {
    "ranks": 16,
    "per_node": 4,
    "memory": 3e9,
    "flops": 1e14,
    "inside": 100e9,
    "across": 5e9,
}
FITS, TOO_LARGE, YOURS = "#0072B2", "0.6", "#D55E00"
OFF = 0.01  # relative: a price that is so far from the text's is drawn beside it


def layout_picture(check: Check, source: str) -> Picture:
    """For `Check.picture`: bytes and seconds of every legal layout, and the one that was chosen.

    Raises ValueError where the answer raises.
    """
    from matplotlib.figure import Figure

    table = Drawn(__package__, check.id).pictured()
    every = [dict(zip(KEYS, sizes, strict=True)) for sizes in table]
    prices = [[MODEL, CLUSTER, one] for one in every]
    memory = [[MODEL, one] for one in every]
    evidence = launch(
        check.drive,
        1,
        answer=as_python(source),
        answer_name=check.id,
        rules=check.rules,
        inputs=[{"memory": memory, "slots": prices, "data": [], "choices": [[MODEL, CLUSTER]]}],
        process_group=False,
        timeout=LIMIT,
    )
    if evidence.diagnosis is not None:
        raise ValueError(evidence.diagnosis.sentence)
    told = evidence.values[0]
    if not isinstance(told["choices"], list):
        raise ValueError("nothing was chosen")
    choice = told["choices"][0]
    figure = Figure(figsize=(9, 4.4), layout="constrained")
    axes = figure.subplots()
    _draw(axes, table)
    if (sizes := legal_sizes(table, choice)) is not None:
        place = [*table].index(sizes)
        own = [one[place] for one in (told["memory"], told["slots"]) if isinstance(one, list)]
        _mark(axes, table[sizes], own)
    axes.set_title(in_words(table, choice), fontsize=10, loc="left")
    axes.legend(fontsize=8, loc="upper left")
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=110, facecolor="white")
    words = (
        "All legal layouts of a model that is not judged, a point each: memory of a rank, and "
        "seconds of a step, as the text prices them. Right of the dashed line they do not fit. "
        "The ring is the layout that you chose"
    )
    return Picture(image.getvalue(), words)


def legal_sizes(table: Table, choice: Any) -> tuple[int, ...] | None:
    """A choice as one of the legal layouts; None where it is none of them."""
    if not isinstance(choice, dict):
        return None
    wanted = [choice.get(key) for key in KEYS]
    return next((sizes for sizes in table if [*sizes] == wanted), None)


def in_words(table: Table, choice: Any) -> str:
    """The picture's title: the choice, and how it compares with the best one."""
    fitting = [seconds for nbytes, seconds in table.values() if nbytes <= CLUSTER["memory"]]
    best = min(fitting)
    if choice is None:
        return f"You chose none, and {len(fitting)} of {len(table)} layouts fit"
    sizes = legal_sizes(table, choice)
    if sizes is None:
        return f"Your choice is none of the {len(table)} legal layouts"
    nbytes, seconds = table[sizes]
    named = [f"{key.replace('_', '-')} {size}" for key, size in zip(KEYS, sizes, strict=True)]
    yours = f"Yours ({', '.join(named)})"
    if nbytes > CLUSTER["memory"]:
        return f"{yours} does not fit"
    if seconds > best * (1 + 1e-6):  # the table is in float32
        return f"{yours} takes {seconds / best:.2f} times as long as the fastest that fits"
    return f"{yours} is the fastest of the {len(fitting)} that fit: {seconds:.2f} s"


def _draw(axes: Any, table: Table) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    memory = CLUSTER["memory"]
    large = [price for price in table.values() if price[0] > memory]
    fitting = [price for price in table.values() if price[0] <= memory]
    for some, colour, marker, label in (
        (large, TOO_LARGE, "x", "too large"),
        (fitting, FITS, "o", "fit"),
    ):
        places = [nbytes / 1e9 for nbytes, _ in some], [seconds for _, seconds in some]
        axes.scatter(*places, s=20, color=colour, marker=marker, label=f"{len(some)} {label}")
    axes.axvline(memory / 1e9, color="black", linestyle="--", linewidth=1)
    axes.set(xscale="log", yscale="log")
    times = [seconds for _, seconds in table.values()]
    axes.set_ylim(0.4 * min(times), 5 * max(times))  # room for prices of yours, and the legend
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(NullLocator())
    axes.set(xlabel="memory of a rank (GB)", ylabel="a step (s)")
    axes.grid(alpha=0.3)


def _mark(axes: Any, price: tuple[float, float], own: list[Any]) -> None:
    """A ring at the choice; a cross at the answer's own prices of it, where they are others."""
    at = price[0] / 1e9, price[1]
    look = {"markerfacecolor": "none", "markeredgecolor": YOURS, "markeredgewidth": 2.5}
    axes.plot(*at, "o", markersize=17, linestyle="none", label="your choice", **look)
    if len(own) < 2 or not all(is_number(one) and one > 0 for one in own):
        return
    mine = own[0] / 1e9, own[1]
    if any(abs(m / right - 1) > OFF for m, right in zip(mine, at, strict=True)):
        axes.plot([at[0], mine[0]], [at[1], mine[1]], ":", color=YOURS)
        axes.plot(*mine, "X", color=YOURS, markersize=10, label="as you price it")
