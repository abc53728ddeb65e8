"""One set of images in several formats: what the kernel counted, as a table; images/s, as bars."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter

from hpml.measure.storage import IN_ORDER, SHUFFLED, Cost, Pass
from hpml.trace.layout import PALETTE

FASTER = 1.2  # times as fast as files: less is hardly faster
LOOKS = {  # by place: colour and hatch
    "disk, cold": (PALETTE[5], ""),
    "disk, warm": (PALETTE[1], "///"),
    "/dev/shm": (PALETTE[2], "..."),
}


class Gains(NamedTuple):
    """How many times as fast as files a format is, shuffled: with a warm cache, and with a cold
    one, None where there was none."""

    warm: float
    cold: float | None


class StorageTable:
    """A row for each format, as Markdown: opens, reads and bytes of a pass in each order.

    Counts are those of the first pass of each order, which is the one with a cold cache where
    there is one. Bytes are in MB, 10⁶.
    """

    def __init__(self, passes: Sequence[Pass]):
        self.first: dict[tuple[str, str], Pass] = {}
        for one in passes:
            self.first.setdefault((one.format, one.order), one)

        self.passes = passes

    def cost(self, format: str, order: str) -> Cost:
        """Of the first pass in that order."""
        return self.first[format, order].cost

    def most_opens(self, without: str) -> int:
        """The most opens of any format but one."""
        return max(one.cost.opens for one in self.first.values() if one.format != without)

    def rates(self, place: str, order: str) -> dict[str, float]:
        """Images per second by format."""
        return {
            one.format: one.cost.rate
            for one in self.passes
            if (one.place, one.order) == (place, order)
        }

    def opens_and_reads(self, format: str, order: str) -> dict[str, tuple[int, int]]:
        """Opens and reads of a pass, by place."""
        return {
            one.place: (one.cost.opens, one.cost.reads)
            for one in self.passes
            if (one.format, one.order) == (format, order)
        }

    def against_memory(self, format: str) -> dict[str, tuple[float, float]]:
        """Images/s from a warm cache and from /dev/shm, by order; {} where there is no /dev/shm."""
        rates = {(one.place, one.order): one.cost.rate for one in self.passes
                 if one.format == format}  # fmt: skip
        warm, _ = self.warm_and_cold()
        return {
            order: (rates[warm, order], rates["/dev/shm", order])
            for order in (IN_ORDER, SHUFFLED)
            if warm != "/dev/shm" and ("/dev/shm", order) in rates
        }

    def warm_and_cold(self) -> tuple[str, str]:
        """Names of the places with a warm and a cold cache; a tmpfs alone is both."""
        there = [one.place for one in self.passes]
        warm = next((place for place in there if place.endswith("warm")), there[0])
        return warm, next((place for place in there if place.endswith("cold")), there[0])

    @property
    def gains(self) -> dict[str, Gains]:
        """Of each format but files, the fastest with a warm cache first."""
        warm, cold = (self.rates(place, SHUFFLED) for place in self.warm_and_cold())
        dropped = warm != cold and {"files", "memory map"} <= set(cold)
        return {
            name: Gains(rate / warm["files"], cold[name] / cold["files"] if dropped else None)
            for name, rate in sorted(warm.items(), key=lambda one: -one[1])
            if name != "files"
        }

    @property
    def caches(self) -> str:
        """For a caption: what was in the kernel's cache before a pass."""
        if self.gains["memory map"].cold is None:
            return "the kernel kept what it had read: no pass here has a cold cache"
        return "contents dropped from the kernel's cache before a cold pass, names and inodes not"

    def beside_loaders(self, loaders: Mapping[str, float]) -> str:
        """Storage and loaders (images/s by name) in one table, each part from slow to fast.

        Storage is the shuffled pass with a warm cache, which reads and returns bytes; a loader also
        augments, normalises and makes batches.
        """
        place, _ = self.warm_and_cold()
        parts = {
            f"read one by one, shuffled: {place}": self.rates(place, SHUFFLED),
            "read, augmented, in batches": loaders,
        }
        lines = [f"{'':36}{'images/s':>12}{'µs an image':>14}"]
        for title, rates in parts.items():
            lines.append(title)
            lines += [
                f"  {name:34}{rate:12,.0f}{1e6 / rate:14.1f}"
                for name, rate in sorted(rates.items(), key=lambda one: one[1])
            ]
        return "\n".join(lines)

    def _repr_markdown_(self) -> str:
        lines = [
            "| format | opens | reads | MB returned by reads | MB from the disk | page faults |",
            "|---|--:|--:|--:|--:|--:|",
        ]
        for name in dict.fromkeys(name for name, _ in self.first):
            both = [self.first[name, order].cost for order in (IN_ORDER, SHUFFLED)]
            cells = [
                [f"{cost.opens:,}" for cost in both],
                [f"{cost.reads:,}" for cost in both],
                [f"{cost.asked / 1e6:,.1f}" for cost in both],
                [f"{cost.fetched / 1e6:,.1f}" for cost in both],
                [f"{cost.faults:,}" for cost in both],
            ]
            lines.append(f"| {name} | " + " | ".join(" / ".join(pair) for pair in cells) + " |")
        return "\n".join([*lines, "", "In order / shuffled."])

    __repr__ = _repr_markdown_


def storage_picture(passes: Sequence[Pass], *, title: str = "") -> Figure:
    """Images per second on a logarithmic axis: a panel for each order, a bar for each place."""
    formats = list(dict.fromkeys(one.format for one in passes))
    places = list(dict.fromkeys(one.place for one in passes))
    figure = Figure(figsize=(9, 0.9 + 0.6 * len(formats)), layout="constrained")
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    width = 0.8 / len(places)
    for panel, order in zip(panels, (IN_ORDER, SHUFFLED), strict=True):
        for number, place in enumerate(places):
            colour, hatch = LOOKS.get(place, (PALETTE[7], ""))
            rates = {
                one.format: one.cost.rate
                for one in passes
                if one.place == place and one.order == order
            }
            rows = [
                formats.index(name) + (number - (len(places) - 1) / 2) * width for name in rates
            ]
            bars = panel.barh(
                rows,
                list(rates.values()),
                height=width,
                color=colour,
                hatch=hatch,
                edgecolor="black",
                linewidth=0.5,
                label=place,
            )
            panel.bar_label(bars, [_short(rate) for rate in rates.values()], padding=2, fontsize=7)
        panel.set_xscale("log")
        panel.set_yticks(range(len(formats)), formats)
        panel.set_title(f"read {order}" if order == IN_ORDER else order, fontsize=10)
        panel.set_xlabel("images/s")
        panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _tick(value)))
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_xlim(1e3, 3 * panels[0].get_xlim()[1])
    panels[0].invert_yaxis()
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False
    )
    if title:
        figure.suptitle(title, fontsize=11)
    return figure


def _tick(rate: float) -> str:
    return f"{rate / 1e6:g} M" if rate >= 1e6 else f"{rate / 1e3:g} k"


def _short(rate: float) -> str:
    if rate >= 1e6:
        return f"{rate / 1e6:.1f} M"
    return f"{rate / 1e3:.0f} k" if rate >= 1e4 else f"{rate / 1e3:.1f} k"


def stripes_picture(servers: int = 4, *, title: str = "") -> Figure:
    """One large file over `servers` data servers beside as many small files, each on one of them.

    A schematic: an arrow for each open, and one for what each data server sends.
    """
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    right = 2 + 1.4 * servers
    for axes, large in zip(figure.subplots(1, 2), (True, False), strict=True):
        opens = 1 if large else 2 * servers
        many = f"{2 * servers} small files: {opens} opens"
        axes.set_title(f"1 file in {2 * servers} stripes: 1 open" if large else many, fontsize=10)
        _box(axes, 0, 3.6, right - 0.2, "client", PALETTE[7])
        _box(axes, 0, 0, 1.5, "metadata", PALETTE[1])
        for number in range(opens):
            across = 0.75 + 0.16 * (number - (opens - 1) / 2)
            axes.annotate("", (across, 0.6), (across, 3.6), arrowprops={"arrowstyle": "<->"})
        for server in range(servers):
            left = 2 + 1.4 * server
            _box(axes, left, 0, 1.2, f"data {server}", PALETTE[0])
            for row in range(2):
                label = f"{'stripe' if large else 'file'} {server + servers * row}"
                _box(axes, left, 0.6 + 0.5 * row, 1.2, label, "white", height=0.5, size=7)
            axes.annotate("", (left + 0.6, 3.6), (left + 0.6, 1.6), arrowprops={"arrowstyle": "->"})
        axes.set(xlim=(-0.1, right), ylim=(-0.1, 4.3))
        axes.axis("off")
    if title:
        figure.suptitle(title, fontsize=11)
    return figure


def _box(
    axes: Axes,
    left: float,
    bottom: float,
    width: float,
    text: str,
    colour: str,
    height: float = 0.6,
    size: int = 8,
) -> None:
    axes.add_patch(Rectangle((left, bottom), width, height, facecolor=colour, edgecolor="black"))
    axes.text(left + width / 2, bottom + height / 2, text, ha="center", va="center", fontsize=size)
