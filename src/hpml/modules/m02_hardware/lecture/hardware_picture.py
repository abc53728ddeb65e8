"""FLOP for each byte of memory, and for each byte over the links, against the year."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hpml.predict.draw import COLOURS, MARKERS
from hpml.predict.hardware import FLOATS, SIXTEEN_BITS, Part

TICKS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)
KINDS = ("GPU", "TPU", "CPU", "IPU")


def flop_per_byte_picture(parts: Sequence[Part], *, title: str = "") -> Figure:
    """Two panels on logarithmic axes, a point for each part, by year: FLOP per byte of memory and
    FLOP per byte over the links, at the part's rate for floats of 16 bits. A hollow point above
    it is at that of narrower floats, where the table has one.

    Parts whose links' rate is unknown are in the first panel only. Raises ValueError, as
    `Part.peak` does, for a part without a rate for 16 bits.
    """
    figure = Figure(figsize=(10, 4), layout="constrained")
    memory, links = figure.subplots(1, 2, sharex=True)
    _draw(memory, [(one, one.ridge()) for one in parts])
    _draw(links, [(one, one.flops_per_link_byte()) for one in parts if one.link_gb_s])
    for one in parts:
        if one.peak(FLOATS) > one.peak():
            _narrow(memory, one, [one.ridge(types) for types in (SIXTEEN_BITS, FLOATS)])
            if one.link_gb_s:
                both = [one.flops_per_link_byte(types) for types in (SIXTEEN_BITS, FLOATS)]
                _narrow(links, one, both)
    memory.set(ylabel="FLOP per byte", title="per byte of memory")
    links.set(title="per byte over the links, in one direction")
    kinds = [kind for kind in KINDS if any(one.kind == kind for one in parts)]
    handles = [memory.plot([], [], **_look(kind), label=kind)[0] for kind in kinds]
    look = {"color": "black", "marker": "o", "linestyle": "", "markerfacecolor": "white"}
    handles += memory.plot([], [], **look, label="in 8 or 4 bits")
    memory.legend(handles=handles, fontsize=8, loc="lower right")
    figure.suptitle(title, x=0.01, ha="left")
    return figure


def _draw(axes: Axes, points: Sequence[tuple[Part, float]]) -> None:
    for part, ratio in points:
        axes.plot(part.year, ratio, **_look(part.kind))
        # The name stands above or below where two parts of one year are close to each other.
        close = [
            other
            for one, other in points
            if one.year == part.year and other > ratio and other < 1.6 * ratio
        ]
        place = {"xytext": (0, -7), "va": "top"} if close else {"xytext": (0, 6), "va": "bottom"}
        name = {"text": part.name, "fontsize": 8, "ha": "center", "textcoords": "offset points"}
        axes.annotate(xy=(part.year, ratio), **name, **place)
    years = [part.year for part, _ in points]
    axes.set_xlim(min(years) - 0.8, max(years) + 0.8)
    axes.set_yscale("log")
    axes.margins(y=0.15)
    low, high = axes.get_ylim()
    ticks = [tick for tick in TICKS if low < tick < high]
    axes.set_yticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("year")
    axes.grid(alpha=0.3)


def _narrow(axes: Axes, part: Part, ratios: Sequence[float]) -> None:
    """A hollow point, joined to the part's own."""
    axes.plot([part.year] * 2, ratios, color="#777777", linewidth=0.8, linestyle=":")
    look = _look(part.kind) | {"markerfacecolor": "white"}
    axes.plot(part.year, ratios[-1], **look)
    low, high = axes.get_ylim()
    axes.set_ylim(low, max(high, 1.5 * ratios[-1]))


def _look(kind: str) -> dict:
    number = KINDS.index(kind)
    colour = COLOURS[number]
    return {"color": colour, "marker": MARKERS[number], "markersize": 7, "linestyle": ""}
