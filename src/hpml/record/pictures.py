"""What was recorded, drawn, and what lectures conclude from it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from hpml.record.kept import Recorded
from hpml.record.roofline import HEADS, LAUNCHES
from hpml.record.training import seconds_to
from hpml.trace.profiler import intervals
from hpml.trace.profiler.phases import DEVICE, WAITS
from hpml.trace.profiler.read import read
from hpml.trace.profiler.trace import Trace

MARKERS = "osD^vX"
SCORES_MOVED = 6  # times, by the four operations of `record.roofline`: out and in again


def roofline_picture(one: Recorded, *, title: str = "") -> Figure:
    """FLOP/s of products over their side, by number type; and seconds as several kernels and as
    one, of attention and of GELU."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    products, fused = figure.subplots(1, 2, width_ratios=(3, 2))
    by_type = sorted(rates_by_type(one).items(), key=lambda pair: -max(pair[1].values()))
    for marker, (name, rates) in zip(MARKERS, by_type, strict=False):
        sides = sorted(rates)
        teraflops = [rates[side] / 1e12 for side in sides]
        products.loglog(sides, teraflops, f"-{marker}", label=name)
    products.set(xlabel="rows and columns of each matrix", ylabel="TFLOP/s")
    products.set_xticks(sides, map(str, sides))
    products.minorticks_off()
    least, most = np.log10(products.get_ylim())
    products.set_ylim(10 ** np.floor(least), 10 ** np.ceil(most))  # whole decades have a number
    products.set_title("A product of two matrices", loc="left", fontsize=10)
    products.legend(fontsize="small")
    products.grid(alpha=0.3)
    parts = {"attention": one.result["attention"], "GELU": one.result["gelu"]}
    for number, kind in enumerate(("steps", "fused")):
        heights = [1e3 * part[kind] for part in parts.values()]
        places = np.arange(len(parts)) + 0.4 * number
        label = ("operation by operation", "as one kernel")[number]
        bars = fused.bar(places, heights, 0.36, label=label, edgecolor="black", hatch="/" * number)
        fused.bar_label(bars, fmt="%.2g", fontsize="small")
    fused.set_xticks(np.arange(len(parts)) + 0.2, parts)
    fused.set(ylabel="ms", yscale="log")
    fused.set_ylim(top=8 * fused.get_ylim()[1])  # room for the legend
    for axis in (products.yaxis, fused.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    fused.set_title("Fewer trips to memory", loc="left", fontsize=10)
    fused.legend(fontsize="small")
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure


def rates_by_type(one: Recorded) -> Mapping[str, Mapping[int, float]]:
    """FLOP/s by number type and side; without the types that the device does not have."""
    found = {}
    for name, rates in one.result["products"].items():
        if "failed" not in rates:
            found[name] = {int(side): rate for side, rate in rates.items()}
    return found


class Products(NamedTuple):
    """The highest FLOP/s by number type; the smallest side of a matrix, and the share of the
    highest rate that bfloat16 has there; byte/s of triad. `held`: bfloat16 is clearly faster than
    float32, and small products are not."""

    held: bool
    most: Mapping[str, float]
    small: int
    share: float
    triad: float


def products(one: Recorded) -> Products:
    """Do fewer bits compute faster, and from which side on is it worth it?"""
    rates = rates_by_type(one)
    most = {name: max(by_side.values()) for name, by_side in rates.items()}
    half, small = most["bfloat16"], min(rates["bfloat16"])
    share = rates["bfloat16"][small] / half
    held = half > 1.5 * most["float32"] and share < 0.5
    return Products(held, most, small, share, one.result["bytes_per_second"]["triad"])


class Launches(NamedTuple):
    """Seconds of a small kernel, and of one in a graph of so many `kernels`, None where there is no
    graph; byte/s of triad. `held`: a graph saves most of a launch."""

    held: bool
    asked: float
    in_graph: float | None
    kernels: int
    triad: float


def launches(one: Recorded) -> Launches:
    """Is a small kernel's time that of its launch, and does a graph save it?"""
    asked, in_graph = (one.result["launch_seconds"].get(name) for name in ("done", "graph"))
    held = in_graph is not None and asked > 2 * in_graph
    triad = one.result["bytes_per_second"]["triad"]
    return Launches(held, asked, in_graph, LAUNCHES, triad)


def forward_intensities(tokens: int, width: int, itemsize: int = 2) -> tuple[float, float]:
    """FLOP/byte of one head's forward pass over so many tokens, fused and with scores moved.

    4 T² d FLOP, two products. Fused: queries, keys, values and output, 4 T d numbers. Else the
    scores as well, T² numbers, SCORES_MOVED times.
    """
    flops, ends, scores = 4 * tokens**2 * width, 4 * tokens * width, tokens**2
    return flops / (itemsize * ends), flops / (itemsize * (ends + SCORES_MOVED * scores))


class Attention(NamedTuple):
    """Seconds and FLOP/byte as one kernel and as several; `least`: seconds in which
    the memory can move what the operations ask for. `held`: fused is right of the ridge, and much
    faster; with scores moved it is left of it, and no faster than the memory allows."""

    held: bool
    tokens: int
    fused: float
    written: float
    fused_intensity: float
    written_intensity: float
    ridge: float
    least: float


def attention(one: Recorded) -> Attention:
    """Attention forward, in bfloat16: as one kernel, and with its scores in memory."""
    batch, heads, tokens, width = HEADS[one.device["kind"]]
    taken = one.result["attention"]
    rates = {int(side): rate for side, rate in one.result["products"]["bfloat16"].items()}
    memory = max(one.result["bytes_per_second"].values())
    ridge = max(rates.values()) / memory
    above, below = forward_intensities(tokens, width)
    least = batch * heads * 4 * tokens**2 * width / below / memory
    held = below < ridge < above and taken["steps"] > 2 * taken["fused"]
    held = held and taken["steps"] > 0.9 * least
    return Attention(held, tokens, taken["fused"], taken["steps"], above, below, ridge, least)


def training_picture(one: Recorded, *, title: str = "") -> Figure:
    """Test accuracy over seconds of training, a line for each way that did not fail."""
    figure = Figure(figsize=(6.5, 3.2), layout="constrained")
    axes = figure.subplots()
    for marker, run in zip(MARKERS, trained(one), strict=False):
        seconds = np.cumsum([epoch["seconds"] for epoch in run["epochs"]])
        accuracy = [100 * epoch["accuracy"] for epoch in run["epochs"]]
        axes.plot(seconds, accuracy, f"-{marker}", label=f"{run['recipe']}, {run['precision']}")
    for goal in (90, 94):
        axes.axhline(goal, color="black", linestyle=":", linewidth=1)
    axes.set(xlabel="seconds of training", ylabel="test accuracy (%)")
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", loc="lower right")
    axes.set_title(title, loc="left", fontsize=11)
    return figure


def trained(one: Recorded) -> list[Mapping[str, Any]]:
    """The runs that ended."""
    return [run for run in one.result["runs"] if "failed" not in run]


class Reached(NamedTuple):
    """By goal, the seconds of the `first` run that reaches it, and that run; the `best` end.

    Whether images were synthetic, and whether they had been packed.
    """

    held: bool
    first: Mapping[float, tuple[float, Mapping[str, Any]]]
    best: float
    synthetic: bool
    packed: bool


def reached(one: Recorded) -> Reached:
    """Does a way reach 90 %, and which is the first that does?"""
    runs, first = trained(one), {}
    for goal in (0.9, 0.94):
        times = [(seconds_to(run, goal), run) for run in runs]
        there = [(seconds, run) for seconds, run in times if seconds is not None]
        if there:
            first[goal] = min(there, key=lambda pair: pair[0])
    best = max(run["epochs"][-1]["accuracy"] for run in runs)
    synthetic, packed = (any(run[name] for run in runs) for name in ("synthetic", "packed"))
    return Reached(0.9 in first, first, best, synthetic, packed)


def traces(one: Recorded) -> dict[str, Trace]:
    """The traces of the bad loop and of the good one, as far as they were small enough to keep."""
    loops = one.result["loops"]
    return {name: read(one.folder / loop["trace"]) for name, loop in loops.items() if loop["trace"]}


def on_device(trace: Trace) -> dict[str, float]:
    """Of a recorded step: seconds in which the device computes or copies (nan where there is none),
    kernels, and waits of the host."""
    steps = trace.steps
    start, end = steps[0].start, steps[-1].end
    work = trace.of(*DEVICE)
    busy = intervals.clip(intervals.union(trace.start[work], trace.end[work]), start, end)
    inside = (trace.start >= start) & (trace.start < end)
    return {
        "busy": intervals.length(busy) / len(steps) if work.any() else float("nan"),
        "kernels": float((work & inside).sum()) / len(steps),
        "waits": float((trace.named(*WAITS) & inside).sum()) / len(steps),
    }


@dataclass(frozen=True)
class Loops:
    """The bad loop and the good one. Facts of the device are by "bad" and "good", and empty where
    one of them was not recorded."""

    seconds: Mapping[str, float]  # of the median step, without a profiler
    busy: Mapping[str, float]  # of these, how much the device computes or copies, from 0 to 1
    kernels: Mapping[str, float]  # of a step
    waits: Mapping[str, float]  # of the host, in a step

    @property
    def factor(self) -> float:
        """How many times as fast the good one is."""
        return self.seconds["bad"] / self.seconds["good"]

    @property
    def held(self) -> bool:
        """The good loop is faster, and the device is busier in it."""
        return self.factor > 1.2 and (not self.busy or self.busy["good"] > self.busy["bad"])

    @property
    def starved(self) -> bool:
        """The host waits for nothing in the good loop, and yet the device often does nothing."""
        return bool(self.busy) and self.busy["good"] < 0.7 and not self.waits["good"]


def loops(one: Recorded, found: Mapping[str, Mapping[str, float]]) -> Loops:
    """Of `on_device`'s facts.

    A profiler makes the host slower, not the device: the share of a step in which that works is
    taken of the steps without one.
    """
    recorded = one.result["loops"]
    seconds = {name: float(np.median(loop["seconds"])) for name, loop in recorded.items()}
    if len(found) < 2 or any(np.isnan(facts["busy"]) for facts in found.values()):
        return Loops(seconds, {}, {}, {})
    busy = {name: facts["busy"] / seconds[name] for name, facts in found.items()}
    kernels, waits = ({n: facts[key] for n, facts in found.items()} for key in ("kernels", "waits"))
    return Loops(seconds, busy, kernels, waits)
