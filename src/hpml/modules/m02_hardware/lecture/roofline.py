"""The roofline model: how fast a piece of work can be at best on this hardware, and why no faster.

Williams, Waterman, Patterson 2009, Roofline: an insightful visual performance model for multicore
architectures, Communications of the ACM 52(4), section 3. Work that does `intensity` FLOP with each
byte it moves reaches at best

    attainable = min(peak, bandwidth × intensity)    in FLOP/s

The two meet at the ridge point, peak / bandwidth: left of it memory sets the pace, right of it the
arithmetic.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hpml.machine.topology import Cache
from hpml.predict.draw import COLOURS, LINES, MARKERS

MEMORY, COMPUTE = "memory bandwidth", "compute"


@dataclass(frozen=True)
class Roof:
    """What hardware reaches at best: `peak` in FLOP/s, memory's `bandwidth` in byte/s."""

    name: str
    peak: float
    bandwidth: float

    @property
    def ridge(self) -> float:
        """FLOP/byte from which on the peak can be reached."""
        return self.peak / self.bandwidth

    def attainable(self, intensity: float) -> float:
        """FLOP/s that work of this intensity, in FLOP/byte, reaches at best."""
        return min(self.peak, self.bandwidth * intensity)

    def binding(self, intensity: float) -> str:
        """Which of the two holds work of this intensity back: "memory bandwidth" or "compute"."""
        return MEMORY if intensity < self.ridge else COMPUTE


@dataclass(frozen=True)
class Work:
    """A piece of work: its FLOPs and bytes as counted, its seconds as measured."""

    name: str
    flops: float
    nbytes: float
    seconds: float

    @property
    def intensity(self) -> float:
        """FLOP/byte."""
        return self.flops / self.nbytes

    @property
    def rate(self) -> float:
        """FLOP/s."""
        return self.flops / self.seconds

    def share(self, roof: Roof) -> float:
        """Of what the roof allows: 0.5 is half as fast as it could be."""
        return self.rate / roof.attainable(self.intensity)


def picture(
    roofs: Sequence[Roof],
    works: Sequence[Work] = (),
    *,
    title: str = "",
    over: Roof | None = None,
) -> Figure:
    """Roofs as lines, work as lettered points with a legend beside it; logarithmic axes.

    Of a roof's name, "float32, 2 cores", the first part has its colour, the second its line. `over`
    is the one that the points are to be compared with, and the thick line.
    """
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    axes = figure.subplots()
    intensities = [work.intensity for work in works] + [roof.ridge for roof in roofs]
    low, high = min(intensities) / 3, max(intensities) * 5
    fine = np.geomspace(low, high, 400)
    axes.set_xscale("log")
    axes.set_yscale("log")
    types, places = (
        list(dict.fromkeys(roof.name.partition(", ")[k] for roof in roofs)) for k in (0, 2)
    )
    for roof in roofs:
        kind, _, place = roof.name.partition(", ")
        width = 3.0 if over is not None and roof.name == over.name else 1.2
        _roof(axes, roof, fine, COLOURS[types.index(kind)], LINES[places.index(place)], width)
    for number, work in enumerate(works):
        _work(axes, number, work)
    axes.set_xlim(low, high)
    axes.set_xlabel("intensity: operations for each byte moved (FLOP/byte)")
    whole = "; int8: GOP/s" * any(kind.startswith("int") for kind in types)
    axes.set_ylabel(f"speed (GFLOP/s{whole})")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right center", frameon=False, fontsize=9)
    figure.suptitle(title, x=0.01, ha="left")
    return figure


def sweep_picture(
    sweeps: Mapping[str, Mapping[int, float]], caches: Sequence[Cache] = (), *, title: str = ""
) -> Figure:
    """Byte/s over the working set in bytes, a line each by name; caches end at grey lines."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    axes = figure.subplots()
    for number, (name, rates) in enumerate(sweeps.items()):
        look = {"color": COLOURS[number], "marker": MARKERS[number], "linestyle": LINES[number]}
        speeds = [rate / 1e9 for rate in rates.values()]
        axes.plot(list(rates), speeds, label=name, markersize=4, **look)
    axes.set_xscale("log", base=2)
    sizes = [size for rates in sweeps.values() for size in rates]
    low, high = min(sizes) / 1.5, max(sizes) * 1.5
    axes.set_xlim(low, high)
    axes.set_ylim(bottom=0)
    for level, nbytes in sorted({(cache.level, cache.nbytes) for cache in caches}):
        if low < nbytes < high:
            axes.axvline(nbytes, color="#777777", linewidth=1, linestyle=":")
            axes.text(nbytes, 0.97, f"L{level} ", transform=axes.get_xaxis_transform(), ha="right",
                      va="top", color="#444444")  # fmt: skip
    ticks = [1 << k for k in range(10, 40, 2) if low < 1 << k < high]
    axes.set_xticks(ticks, [_size(tick) for tick in ticks])
    axes.set_xlabel("working set: all arrays together")
    axes.set_ylabel("bandwidth (GB/s)")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    axes.set_title(title, loc="left")
    return figure


def _size(nbytes: int) -> str:
    return f"{nbytes >> 20} MiB" if nbytes >= 1 << 20 else f"{nbytes >> 10} KiB"


def _roof(
    axes: Axes, roof: Roof, fine: np.ndarray, colour: str, line: object, width: float
) -> None:
    speeds = [roof.attainable(intensity) / 1e9 for intensity in fine]
    unit = "GOP/s" if roof.name.startswith("int") else "GFLOP/s"
    ridge = f"{roof.ridge:.1f}" if roof.ridge < 10 else f"{roof.ridge:.0f}"
    label = f"{roof.name}: {roof.peak / 1e9:,.0f} {unit}, ridge {ridge}"
    axes.plot(fine, speeds, color=colour, linestyle=line, linewidth=width, label=label)
    axes.plot(roof.ridge, roof.peak / 1e9, "|", color=colour, markersize=14, markeredgewidth=1.8)


def _work(axes: Axes, number: int, work: Work) -> None:
    place = (work.intensity, work.rate / 1e9)
    marker = MARKERS[number % len(MARKERS)]
    axes.plot(
        *place, marker, color="black", markerfacecolor="white", markersize=8, linestyle="",
        label=f"{chr(ord('A') + number)}: {work.name}",
    )  # fmt: skip
    axes.annotate(
        chr(ord("A") + number), place, (7, -3), textcoords="offset points", fontsize=10, zorder=5
    )
