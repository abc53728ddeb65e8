"""Nodes, sockets, GPUs and network cards of a cluster, and the links between them."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from hpml.modules.m06_torch_distributed.lecture.cluster_links import LINKS, Link
from hpml.trace.layout import PALETTE, tint

# Colour, dash and width of a link's lines, by its key
LOOKS = {
    "hbm": (PALETTE[3], "-", 2.0),
    "nvlink": (PALETTE[2], "-", 3.6),
    "ddr": (PALETTE[3], ":", 2.0),
    "pcie": (PALETTE[5], "-", 1.4),
    "upi": (PALETTE[6], "--", 1.8),
    "network": ("black", "-", 2.4),
    "ethernet": (PALETTE[7], ":", 1.6),
}
PER_SOCKET = 2  # GPUs drawn of each socket
NODE, HALF = 8.0, 3.7  # widths: of a node, of a socket and its branches


def cluster(links: Sequence[Link] = LINKS, *, nodes: int = 2, title: str = "") -> Figure:
    """Some nodes side by side above the network, and beside them the rate of each link.

    Two GPUs are drawn of the four that a socket has. The bars are bytes per second in one
    direction, on a logarithmic axis, with the figure as its source has it. The data and the sources
    are `hpml.modules.m06_torch_distributed.lecture.cluster_links`.
    """
    figure = Figure(figsize=(10.5, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(2.1, 1))
    width = nodes * (NODE + 0.8)
    left.set(xlim=(-0.3, width - 0.5), ylim=(0.2, 9.4))
    left.axis("off")
    for node in range(nodes):
        _node(left, node, node * (NODE + 0.8))
    _box(left, (0, width - 0.8), (0.4, 0.8), "network switch", "#dddddd")
    _rates(right, links)
    figure.suptitle(title or message(links), x=0.01, ha="left", fontsize=11)
    return figure


def message(links: Sequence[Link] = LINKS) -> str:
    """What the rates say, for the title."""
    rate = {link.key: link.rate for link in links}
    return (
        f"NVLink in a node carries {rate['nvlink'] / rate['network']:.0f} times as much as "
        f"a network card, and GPU memory {rate['hbm'] / rate['nvlink']:.0f} times as much as NVLink"
    )


def _node(axes: Axes, number: int, left: float) -> None:
    axes.add_patch(Rectangle((left, 1.9), NODE, 7.3, facecolor="#f7f7f7", edgecolor="black", lw=1))
    axes.text(left + 0.15, 8.9, f"node {number}", fontsize=9, fontweight="bold", va="center")
    _box(axes, (left + 0.15, NODE - 0.3), (8.0, 0.5), "NVSwitch", tint(2))
    sockets = [left + 0.15 + half * (NODE - 0.15) / 2 for half in (0, 1)]
    _line(axes, "upi", (sockets[0] + HALF / 2, 3.2), (sockets[1] + HALF / 2, 3.2))
    for number, start in enumerate(sockets):
        centre = start + HALF / 2
        _line(axes, "ddr", (centre, 3.0), (centre, 2.6))
        _box(axes, (centre - 0.85, 1.7), (3.0, 1.1), f"socket {number}", "#dddddd")
        _box(axes, (centre - 0.85, 1.7), (2.15, 0.45), "memory", "white")
        for place in range(PER_SOCKET):
            side = -1 if place == 0 else 1
            _branch(axes, centre, side, PER_SOCKET * number + place)


def _branch(axes: Axes, centre: float, side: int, number: int) -> None:
    """A PCIe switch of a socket, on its left or right: one GPU above it, one network card below."""
    switch, card = centre + side * 0.92, centre + side * 1.35
    _line(axes, "nvlink", (switch, 7.4), (switch, 8.0))
    _line(axes, "pcie", (switch, 5.9), (switch, 6.6))
    _line(axes, "pcie", (centre + side * 0.5, 5.4), (centre + side * 0.5, 4.1))
    _line(axes, "pcie", (card, 5.4), (card, 4.2))
    _line(axes, "network", (card, 3.6), (card, 1.2))
    _line(axes, "hbm", (switch + 0.5, 7.0), (switch + 0.72, 7.0))
    _box(axes, (switch - 0.55, 1.1), (6.6, 0.8), f"GPU {number}", tint(0))
    _box(axes, (switch + 0.72, 0.36), (6.6, 0.8), "HBM", "white", rotation=90)
    _box(axes, (switch - 0.8, 1.6), (5.4, 0.5), "PCIe switch", "white")
    _box(axes, (card - 0.38, 0.76), (3.6, 0.6), "NIC", tint(1))


def _line(axes: Axes, key: str, begin: tuple[float, float], end: tuple[float, float]) -> None:
    colour, dash, width = LOOKS[key]
    axes.plot(*zip(begin, end, strict=True), color=colour, linestyle=dash, linewidth=width)


def _box(
    axes: Axes,
    across: tuple[float, float],
    up: tuple[float, float],
    words: str,
    colour: str,
    rotation: float = 0,
) -> None:
    """A box: `across` is where its left side is, and its width; `up` its bottom, and its height."""
    look = {"facecolor": colour, "edgecolor": "black", "linewidth": 0.8, "zorder": 3}
    axes.add_patch(Rectangle((across[0], up[0]), across[1], up[1], **look))
    at = {"ha": "center", "va": "center", "fontsize": 7, "zorder": 4, "rotation": rotation}
    axes.text(across[0] + across[1] / 2, up[0] + up[1] / 2, words, **at)


def _rates(axes: Axes, links: Sequence[Link]) -> None:
    """A bar for each link, and before it a piece of the line with which it is drawn."""
    least = min(link.rate for link in links if link.rate) / 1e9
    begin = least / 1.8
    for place, link in enumerate(links):
        colour, dash, width = LOOKS[link.key]
        axes.plot([begin / 3.2, begin / 1.3], [place] * 2, color=colour, ls=dash, lw=width)
        if not link.rate:
            note = "no bytes/s in the source"
            axes.text(begin, place, note, fontsize=7, va="center", style="italic")
        else:
            axes.barh(place, link.rate / 1e9 - begin, 0.2, left=begin, color=colour)
        words = f"{link.name}: {link.stated}"
        axes.text(begin, place - 0.32, words, fontsize=7.5, va="center")
        axes.text(begin, place + 0.28, link.between, fontsize=7, va="center", color="#444444")
    axes.set_xscale("log")
    axes.set(xlim=(begin / 3.5, 6000), ylim=(len(links) - 0.5, -0.7), yticks=[])
    axes.set_xticks([10.0**k for k in range(-1, 4)], ["0.1", "1", "10", "100", "1000"])
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_xlabel("GB/s, one direction (peak)")
