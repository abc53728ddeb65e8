"""An all-reduce micro-benchmark as a picture: time for small sizes, bus bandwidth for large."""

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from hpml.predict.collectives import all_reduce_bytes
from hpml.predict.draw import COLOURS, HOLLOW, LINES, MARKERS, size_ticks


def bus_bandwidths(
    series: Mapping[str, Mapping[int, float]], ranks: int, rate: float, *, title: str = ""
) -> Figure:
    """`series` has seconds by bytes, by name; `rate` is the link's, in bit/s.

    On the left time against size, with the least time that the link allows; on the right bus
    bandwidth, with the link's rate.
    """
    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    times, rates = figure.subplots(1, 2, sharex=True)
    share = 8 * all_reduce_bytes(ranks, 1)  # bits on a rank's link for each byte of the tensor
    for number, (name, taken) in enumerate(series.items()):
        kinds = {"color": COLOURS, "marker": MARKERS, "linestyle": LINES}
        look: dict[str, Any] = {key: kind[number % len(kind)] for key, kind in kinds.items()}
        look |= HOLLOW | {"linewidth": 1.2, "markersize": 5}
        times.plot(list(taken), [1e6 * seconds for seconds in taken.values()], label=name, **look)
        rates.plot(list(taken), [share * n / s / 1e9 for n, s in taken.items()], **look)
    every = sorted({nbytes for taken in series.values() for nbytes in taken})
    times.plot(every, [1e6 * share * n / rate for n in every], color="black", linewidth=1)
    rates.axhline(rate / 1e9, color="black", linewidth=1)
    rates.text(every[0], rate / 1e9, "the link's rate", va="bottom", fontsize=8)
    lowest = min(min(taken.values()) for taken in series.values())
    times.set_ylim(bottom=1e6 * lowest / 3)
    times.set_yscale("log")
    times.set_ylabel("time (µs); black: the least the link allows")
    rates.set_ylabel("bus bandwidth (Gbit/s)")
    for axes in (times, rates):
        axes.set_xscale("log")
        axes.set_xticks(*size_ticks(every[0], every[-1]))
        axes.tick_params(axis="x", labelsize=7)
        axes.minorticks_off()
        axes.set_xlabel("bytes that each rank has")
        axes.grid(alpha=0.3)
    rates.set_ylim(0, 1.15 * rate / 1e9)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    figure.suptitle(title, x=0.01, ha="left")
    return figure
