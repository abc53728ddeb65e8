"""This machine's roofline, measured in a few seconds: one core and all of them, by number type.

python -m hpml.predict.machine_roofline     # as a table, for a job's log
"""

from collections.abc import Sequence

import torch

from hpml.machine.resources import usable_cores
from hpml.measure.bandwidth import KERNELS, bandwidth
from hpml.measure.compute import fast_types, peak
from hpml.measure.layers import Layer
from hpml.predict.roofline import Roof, Work


def machine_roofs(cores: Sequence[int] | None = None, gpu: bool = True) -> list[Roof]:
    """A roof for each number of cores (default: 1 and all) and each type that is fast here.

    Peaks are those of matrix products, bandwidth is the best of read, copy and triad on arrays
    that no cache holds. Where PyTorch sees a GPU, its roofs follow, unless `gpu` is false.
    """
    every = max(1, int(usable_cores()))
    roofs = []
    for number in cores or sorted({1, every}):
        memory = max(bandwidth(kernel, threads=number) for kernel in KERNELS)
        for name, dtype in fast_types().items():
            title = f"{name}, {number} core{'s' if number > 1 else ''}"
            roofs.append(Roof(title, peak(dtype, number), memory))
    if gpu and torch.cuda.is_available():
        memory = max(bandwidth(kernel, device="cuda") for kernel in KERNELS)
        for name, dtype in fast_types("cuda").items():
            title = f"{name}, {torch.cuda.get_device_name()}"
            roofs.append(Roof(title, peak(dtype, device="cuda"), memory))
    return roofs


def works(layers: Sequence[Layer], names: Sequence[str] | None = None) -> list[Work]:
    """Each layer, forward and backward together, as a point for the picture.

    `names`: what they are called there, in the same order.
    """
    return [
        Work(
            name,
            layer.forward.flops + layer.backward.flops,
            layer.forward.nbytes + layer.backward.nbytes,
            layer.forward.seconds + layer.backward.seconds,
        )
        for layer, name in zip(layers, names or [one.name for one in layers], strict=True)
    ]


def table(roofs: Sequence[Roof]) -> str:
    """A row for each roof: its peak, its bandwidth, and where the two meet."""
    lines = [f"{'':24}{'peak':>16}{'memory':>14}{'ridge':>16}"]
    lines += [
        f"{roof.name:24}{roof.peak / 1e9:8,.0f} GFLOP/s{roof.bandwidth / 1e9:9.1f} GB/s"
        f"{roof.ridge:8.1f} FLOP/B"
        for roof in roofs
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(machine_roofs()))
