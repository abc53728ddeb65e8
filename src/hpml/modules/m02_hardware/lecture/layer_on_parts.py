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


def samples_that_hide_an_all_reduce(one: Part) -> float:
    """Samples (for a language model: tokens) that a rank must compute in a step of data parallel
    training, so that its links are done with the gradients when it has computed.

    In a ring each rank sends 2 (p-1)/p times the gradients' bytes (Patarasuk and Yuan 2009), for
    many ranks twice. Layers that use each parameter once for a sample do 6 FLOP with it. Raises
    ValueError where the links' rate is unknown.
    """
    ratio = one.flops_per_link_byte()
    if ratio is None:
        raise ValueError(f"{one.name}: the hardware table has no rate of its links")
    return 2 * GRADIENT_BYTES * ratio / FLOPS_PER_PARAMETER


def batches(names: Sequence[str]) -> str:
    """A line for each part: the samples that hide an all-reduce."""
    return "\n".join(
        f"{name:8}{part(name).year:6}{samples_that_hide_an_all_reduce(part(name)):8,.0f} samples"
        for name in names
    )


def _seconds(layer: Layer, here: Roof) -> tuple[float, float]:
    return layer.flops / here.peak, layer.nbytes / here.bandwidth
