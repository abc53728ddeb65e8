"""The same layers by different engines: PyTorch's own loops, oneDNN, and oneDNN's favourite layout.

As `caffe time` printed them for two engines (Jia et al. 2014, Caffe): each layer forward and
backward, and the sum.
"""

import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from hpml.measure.clock import with_threads
from hpml.modules.m02_hardware.lecture.layers import Layer, layers
from hpml.trace.layout import PALETTE


@dataclass(frozen=True)
class Engine:
    """With oneDNN or without, and the order in memory of images and filters."""

    onednn: bool
    layout: torch.memory_format


ENGINES = {
    "without oneDNN": Engine(False, torch.contiguous_format),
    "with oneDNN": Engine(True, torch.contiguous_format),
    "and channels_last": Engine(True, torch.channels_last),
}
CLEAR = 1.1  # times as fast: the quickest of some rounds repeat to a few percent
KINDS = ("convolution", "pooling", "normalisation", "the rest")
HATCHES = ("", "////", "....", "\\\\\\\\")
COLOURS = (PALETTE[0], PALETTE[1], PALETTE[2], "#cccccc")


@contextlib.contextmanager
def onednn(enabled: bool) -> Iterator[None]:
    """PyTorch uses oneDNN (once MKL-DNN), or does not; afterwards as before."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="TF32 acceleration")  # of GPUs; none is asked for
        with torch.backends.mkldnn.flags(enabled=enabled):
            yield


def compare(model: nn.Module, images: Tensor, rounds: int = 3) -> dict[str, list[Layer]]:
    """The layers of `model` on `images` [B, C, H, W], by each of ENGINES, on one thread.

    The quickest of `rounds`, in which the engines take turns. The model is contiguous afterwards.
    """
    found: dict[str, list[Layer]] = {}
    with with_threads(1):
        for _ in range(rounds):
            for name, engine in ENGINES.items():
                model.to(memory_format=engine.layout)
                with onednn(engine.onednn):
                    given = images.contiguous(memory_format=engine.layout)
                    rows = layers(model, given, rounds=1)
                found[name] = _quicker(found.get(name, rows), rows)
    model.to(memory_format=torch.contiguous_format)
    return found


def _quicker(rows: Sequence[Layer], others: Sequence[Layer]) -> list[Layer]:
    """Of each layer the quicker forward pass and the quicker backward pass."""
    return [
        replace(
            one,
            forward=min(one.forward, other.forward, key=lambda run: run.seconds),
            backward=min(one.backward, other.backward, key=lambda run: run.seconds),
        )
        for one, other in zip(rows, others, strict=True)
    ]


def kind(layer: Layer) -> str:
    """One of KINDS."""
    names = {"conv": KINDS[0], "pool": KINDS[1], "norm": KINDS[2], "amax": KINDS[1]}
    return next((k for part, k in names.items() if part in layer.kind.lower()), KINDS[3])


def seconds(rows: Sequence[Layer], of: str | None = None) -> tuple[float, float]:
    """Forward and backward, of all layers or of those of a kind."""
    chosen = [row for row in rows if of is None or kind(row) == of]
    return sum(row.forward.seconds for row in chosen), sum(row.backward.seconds for row in chosen)


def table(measured: Mapping[str, Sequence[Layer]]) -> str:
    """Milliseconds of each layer forward and backward, the engines side by side, the sum below."""
    head = "".join(f"{name:>22}" for name in measured)
    under = f"{'forward':>12}{'backward':>10}" * len(measured)
    lines = [f"{'':28}{head}", f"{'layer, ms':28}{under}"]
    for rows in zip(*measured.values(), strict=True):
        times = (f"{r.forward.seconds * 1e3:12.2f}{r.backward.seconds * 1e3:10.2f}" for r in rows)
        lines.append(f"{rows[0].name:28}{''.join(times)}")
    sums = (
        f"{ahead * 1e3:12.2f}{back * 1e3:10.2f}" for ahead, back in map(seconds, measured.values())
    )
    return "\n".join([*lines, f"{'all layers':28}{''.join(sums)}"])


class Gains(NamedTuple):
    """Milliseconds by engine: of all layers, and of each of KINDS. `held`: the library gains, in
    the convolutions too, and the layout gains, the largest factor in pooling."""

    held: bool
    all: list[float]
    of: dict[str, list[float]]


def gains(measured: Mapping[str, Sequence[Layer]]) -> Gains:
    """What the library and the layout gain, forward and backward together."""
    off, on, last = whole = [1e3 * sum(seconds(rows)) for rows in measured.values()]
    of = {one: [1e3 * sum(seconds(rows, one)) for rows in measured.values()] for one in KINDS}
    convolutions, pooling = of["convolution"], of["pooling"]
    held = (
        off > CLEAR * on
        and off > CLEAR * last
        and convolutions[0] > CLEAR * convolutions[1]
        and pooling[1] > 1.5 * pooling[2]
        and max(of, key=lambda one: of[one][1] / max(of[one][2], 1e-9)) == "pooling"
    )
    return Gains(held, whole, of)


def picture(measured: Mapping[str, Sequence[Layer]]) -> Figure:
    """A bar for each engine: milliseconds of the forward and the backward passes of all layers,
    stacked by kind of layer. The title says how much faster the second and the last are than the
    first."""
    figure = Figure(figsize=(9, 0.9 + 0.6 * len(measured)), layout="constrained")
    axes = figure.subplots()
    lefts = [0.0] * len(measured)
    for kind, colour, hatch in zip(KINDS, COLOURS, HATCHES, strict=True):
        widths = [1e3 * sum(seconds(rows, kind)) for rows in measured.values()]
        look = {"color": colour, "hatch": hatch, "edgecolor": "white", "linewidth": 0}
        axes.barh(range(len(measured)), widths, left=lefts, height=0.65, label=kind, **look)
        lefts = [left + width for left, width in zip(lefts, widths, strict=True)]
    for row, total in enumerate(lefts):
        axes.text(total, row, f" {total:.0f} ms", va="center", fontsize="small")
    axes.set_yticks(range(len(measured)), list(measured))
    axes.invert_yaxis()
    axes.set_xlim(0, 1.12 * max(lefts))
    axes.set_xlabel("all layers, forward and backward (ms)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize="small", loc="lower right", frameon=False)
    axes.set_title(
        f"One processor, one network: {lefts[0] / lefts[1]:.1f} times as fast with the library, "
        f"{lefts[0] / lefts[-1]:.1f} times with its layout too",
        loc="left",
        fontsize=10,
    )
    return figure
