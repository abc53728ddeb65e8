"""One layer on the parts of the hardware table: the least time for its FLOP, and for its bytes.

The roofline model (Williams et al. 2009, section 3): both happen at the same time at best, so that
the longer of the two sets the pace.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from torch.utils.flop_counter import FlopCounterMode

from hpml.models.residual import ResidualNetwork
from hpml.modules.m02_hardware.lecture.roofline import COMPUTE, Roof
from hpml.predict.draw import COLOURS
from hpml.predict.hardware import Part, part
from hpml.trace.launch_timeline import HATCHES

SHOWN = ("V100", "A100", "H100", "MI300X", "H200", "B200")
BARS = ("FLOP at the peak rate", "bytes at the memory's bandwidth")
PORT, PORTS = 400e9, (8, 1)  # bit/s of a port of the network, and how many a node has
GRADIENT_BYTES = 2  # of a parameter, in 16 bits
FLOPS_PER_PARAMETER = 6  # and sample, forward and backward: Kaplan et al. 2020, table 1


@dataclass(frozen=True)
class Layer:
    """What one call of a layer asks for at least, in 16 bits: `nbytes` are its input, its weights
    and its output, each moved once."""

    name: str
    flops: int
    nbytes: int

    @property
    def intensity(self) -> float:
        """FLOP per byte."""
        return self.flops / self.nbytes


def first_convolution(batch: int = 512) -> Layer:
    """The first 3×3 convolution of the course's network, forward, for a batch of images.

    Counted by PyTorch's FlopCounterMode on tensors without memory.
    """
    with torch.device("meta"):
        network = ResidualNetwork().to(torch.bfloat16)
        features = network.stem(torch.empty(batch, 3, 32, 32, dtype=torch.bfloat16))
        convolution = network.stages[0].down.convolution
        with FlopCounterMode(display=False) as counter:
            output = convolution(features)
    moved = sum(tensor.nbytes for tensor in (features, convolution.weight, output))
    inputs, outputs = convolution.in_channels, convolution.out_channels
    name = f"3×3 convolution, {inputs} to {outputs} channels, {batch} images"
    return Layer(name, counter.get_total_flops(), moved)


def roof(one: Part) -> Roof:
    """A part's roof for floats of 16 bits."""
    return Roof(one.name, one.peak(), one.bandwidth_gb_s * 1e9)


def picture(layer: Layer, names: Sequence[str] = SHOWN, *, title: str = "") -> Figure:
    """Two bars for each part, in microseconds: the FLOP at the peak rate, the bytes at the memory's
    bandwidth. Beside the longer one stands which it is."""
    figure = Figure(figsize=(9, 0.5 * len(names) + 1.2), layout="constrained")
    axes = figure.subplots()
    for row, name in enumerate(names):
        here = roof(part(name))
        for number, seconds in enumerate(_seconds(layer, here)):
            look = {"color": COLOURS[number], "hatch": HATCHES[number], "edgecolor": "white"}
            look |= {"label": BARS[number]} if row == 0 else {}
            axes.barh(row + (-0.2, 0.2)[number], 1e6 * seconds, 0.36, **look)
        slowest = 1e6 * max(_seconds(layer, here))
        axes.text(slowest, row, f"  {here.binding(layer.intensity)}", va="center", fontsize=9)
    axes.set_yticks(range(len(names)), [f"{name} ({part(name).year})" for name in names])
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set_xlabel("least time (µs)")
    axes.set_title(title, loc="left", fontsize=11)
    axes.legend(loc="lower right", fontsize=9)
    return figure


class Bound(NamedTuple):
    """A layer's roofs on two parts, and how many times as fast it gets at best. `held`: compute
    binds on the older part, and the memory on the newer one."""

    held: bool
    older: Roof
    newer: Roof
    faster: float


def bound(layer: Layer, older: str, newer: str) -> Bound:
    """The same layer on an older and on a newer part, by their names."""
    before, after = roof(part(older)), roof(part(newer))
    compute = [here.binding(layer.intensity) == COMPUTE for here in (before, after)]
    faster = max(_seconds(layer, before)) / max(_seconds(layer, after))
    return Bound(compute == [True, False], before, after, faster)


def samples_that_hide_an_all_reduce(one: Part, byte_s: float | None = None) -> float:
    """Samples (for a language model: tokens) that a rank must compute in a step of data parallel
    training, so that the gradients are sent when it has computed.

    In a ring each rank sends 2 (p-1)/p times the gradients' bytes (Patarasuk and Yuan 2009), for
    many ranks twice. As many leave a node, however many ranks it has: one at a time has its
    neighbour on the next node. `byte_s` is the rate at which they do, by default that of the part's
    own links. Layers that use each parameter once for a sample do 6 FLOP with it. Raises ValueError
    where the links' rate is unknown.
    """
    if byte_s is None:
        if one.link_gb_s is None:
            raise ValueError(f"{one.name}: the hardware table has no rate of its links")
        byte_s = one.link_gb_s * 1e9
    return 2 * GRADIENT_BYTES * one.peak() / byte_s / FLOPS_PER_PARAMETER


def batches(names: Sequence[str]) -> str:
    """A line for each part: the samples that hide an all-reduce, inside a node and between nodes of
    PORTS' numbers of network ports."""
    heads = ("own links", *(f"{n} × {PORT / 1e9:.0f} Gbit/s" for n in PORTS))
    lines = [f"{'samples':14}" + "".join(f"{head:>15}" for head in heads)]
    for name in names:
        inside = samples_that_hide_an_all_reduce(part(name))
        numbers = [inside]
        for ports in PORTS:  # the slower of the two links on the way holds all bytes up
            between = samples_that_hide_an_all_reduce(part(name), ports * PORT / 8)
            numbers.append(max(inside, between))
        lines.append(f"{name:8}{part(name).year:6}" + "".join(f"{n:15,.0f}" for n in numbers))
    return "\n".join(lines)


def _seconds(layer: Layer, here: Roof) -> tuple[float, float]:
    return layer.flops / here.peak, layer.nbytes / here.bandwidth
