"""This machine's roofline, measured in a few seconds: one core and all of them, by number type.

python -m hpml.modules.m02_hardware.lecture.machine_roofline     # as a table, for a job's log
"""

import multiprocessing
import re
import resource
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from statistics import median
from typing import NamedTuple

import torch
from torch import Tensor, nn

from hpml.machine.freed_memory import freed_memory_kept
from hpml.machine.resources import usable_cores
from hpml.measure.bandwidth import KERNELS, bandwidth
from hpml.measure.clock import quickest, with_threads
from hpml.measure.compute import convolution_peak, fast_types, peak
from hpml.modules.m02_hardware.lecture.layers import layers
from hpml.modules.m02_hardware.lecture.roofline import COMPUTE, MEMORY, Roof, Work

SECONDS = 0.2  # for each measurement: long enough that some of it is undisturbed
FASTEST = ("update", "in place")  # nearly always: what they overwrite, they have read
REPEATS = 0.05  # no clock here agrees better with itself
NEAR = 0.5  # of what the limit allows: a layer from here on is near it


def machine_roofs(cores: Sequence[int] | None = None, gpu: bool = True) -> list[Roof]:
    """A roof for each number of cores (default: 1 and all) and each type that is fast here.

    Peaks are those of a matrix product or a convolution, whichever is faster; bandwidth is the best
    of `hpml.measure.bandwidth.KERNELS` on arrays that no cache holds. Where PyTorch sees a GPU, its
    roofs follow, unless `gpu` is false.
    """
    roofs = []
    for number in cores or _numbers_of_cores():
        memory = _memory(number)
        for name, dtype in fast_types().items():
            title = f"{name}, {number} core{'s' if number > 1 else ''}"
            rates = [peak(dtype, number, seconds=SECONDS)]
            if dtype.is_floating_point:
                rates.append(convolution_peak(dtype, number, SECONDS))
            roofs.append(Roof(title, max(rates), memory))
    if gpu and torch.cuda.is_available():
        memory = max(bandwidth(kernel, device="cuda") for kernel in KERNELS)
        for name, dtype in fast_types("cuda").items():
            title = f"{name}, {torch.cuda.get_device_name()}"
            roofs.append(Roof(title, peak(dtype, device="cuda"), memory))
    return roofs


def layer_work(name: str, module: nn.Module, given: Tensor, rounds: int = 3) -> Work:
    """One layer forward and backward, alone: counted by `layers.py`, and timed.

    `given` is its input, for which a gradient is made too. Of a module with modules in it, each
    layer and each function is counted and timed by itself, and hands its output over in memory.
    """
    leaf = given.detach().requires_grad_()
    passes = [p for one in layers(module, leaf, rounds=rounds) for p in (one.forward, one.backward)]
    return Work(
        name,
        sum(one.flops for one in passes),
        sum(one.nbytes for one in passes),
        sum(one.seconds for one in passes),
    )


def works(
    layers: Mapping[str, tuple[nn.Module, Tensor]],
    adam: int,
    after_each: Callable[[], object] = lambda: None,
) -> list[Work]:
    """Each layer with its input, by name, and Adam's step on so many parameters; on all cores.

    Freed memory is kept, as the course's training script does: else most of a ReLU's seconds are
    the kernel's, for pages that it clears (`pages`). `after_each` is called after each of them.
    """
    measured = []
    with with_threads(max(1, int(usable_cores()))), freed_memory_kept():
        for name, layer in layers.items():
            measured.append(layer_work(name, *layer))
            after_each()
        return [*measured, adam_work(adam)]


class Measured(NamedTuple):
    """Roofs and the work below them. `spread`: by how much the best of what was measured of a roof
    is above the median; 0.1 is a tenth."""

    roofs: list[Roof]
    works: list[Work]
    spread: float


def roofs_and_works(layers: Mapping[str, tuple[nn.Module, Tensor]], adam: int) -> Measured:
    """`machine_roofs` and `works` in turn: the roofs before and after, memory on all cores after
    each layer and with Adam's step, whose arrays no cache holds, and the best of all taken.

    On a machine that is shared, memory may be half as fast for seconds on end. A roof measured at
    such a moment would be below what a layer reaches at the next.
    """
    numbers = _numbers_of_cores()
    before, between = machine_roofs(), []
    measured = works(layers, adam, lambda: between.append(_memory(numbers[-1], FASTEST, 0.05)))
    adams = measured[-1]
    between.append(adams.nbytes / adams.seconds)
    after = {roof.name: roof for roof in machine_roofs(numbers[::-1])}
    best, spread = [], 0.0
    for roof in before:
        peaks = [roof.peak, after[roof.name].peak]
        bandwidths = [roof.bandwidth, after[roof.name].bandwidth]
        if roof.name.endswith(whole(before).name.partition(", ")[2]):
            bandwidths += between
        best.append(Roof(roof.name, max(peaks), max(bandwidths)))
        if roof.name == whole(before).name:
            spread = max(max(some) / median(some) - 1 for some in (peaks, bandwidths))
    return Measured(best, measured, spread)


def above(works: Sequence[Work], roof: Roof, spread: float) -> list[Work]:
    """Work that is faster than the roof allows, by more than the roof's spread, or than REPEATS:
    then what was taken for a roof is none."""
    return [work for work in works if work.share(roof) > 1 + max(spread, REPEATS)]


def _memory(cores: int, kernels: Iterable[str] = KERNELS, seconds: float = SECONDS) -> float:
    """Byte/s of the fastest of these kernels on arrays that no cache holds, with so many cores."""
    return max(bandwidth(kernel, threads=cores, seconds=seconds) for kernel in kernels)


def _numbers_of_cores() -> list[int]:
    """One, and all that this process may use."""
    return sorted({1, max(1, int(usable_cores()))})


def whole(roofs: Sequence[Roof], kind: str = "float32") -> Roof:
    """The roof of a number type on all cores of the processor.

    Raises IndexError where there is none.
    """
    return [roof for roof in roofs if re.fullmatch(rf"{kind}, \d+ cores?", roof.name)][-1]


def adam_work(parameters: int, device: torch.device | str = "cpu") -> Work:
    """One step of Adam on so many float32 parameters, in one pass (`fused`).

    Counted from Kingma and Ba 2015, algorithm 1: for each parameter three operations for the first
    moment, four for the second, two to correct the bias, a root, an addition, a division, and two
    for the update; reads parameter, gradient and both moments, writes all but the gradient.
    """
    parameter = nn.Parameter(torch.zeros(parameters, device=device))
    parameter.grad = torch.full_like(parameter, 0.1)
    optimizer = torch.optim.Adam([parameter], fused=True)
    return Work("Adam's step", 14 * parameters, 7 * 4 * parameters, quickest(optimizer.step, 0.2))


def binding_table(works: Sequence[Work], roof: Roof) -> str:
    """For each piece of work the limit that binds, what it allows, and what was reached."""
    lines = [f"{'':24}{'FLOP/byte':>10}  {'limit':18}{'allows':>14}{'reached':>16}"]
    lines += [
        f"{work.name:24}{work.intensity:10.1f}  {roof.binding(work.intensity):18}"
        f"{roof.attainable(work.intensity) / 1e9:6.0f} GFLOP/s{work.rate / 1e9:8.1f} GFLOP/s"
        for work in works
    ]
    return "\n".join(lines)


class Sides(NamedTuple):
    """Work by the limit that binds it, the fastest on either side, and which of all come near
    their limit. `held`: the fastest right of the ridge is faster than the fastest left of it."""

    held: bool
    memory: list[Work]
    compute: list[Work]
    slow: Work | None
    fast: Work | None
    near: list[Work]
    far: list[Work]


def sides(works: Sequence[Work], roof: Roof) -> Sides:
    """What is on which side of the ridge; `slow` or `fast` is None where one side is empty."""
    memory, compute = (
        [work for work in works if roof.binding(work.intensity) == limit]
        for limit in (MEMORY, COMPUTE)
    )
    slow, fast = (max(some, key=lambda one: one.rate, default=None) for some in (memory, compute))
    near = [work for work in works if work.share(roof) >= NEAR]
    far = [work for work in works if work.share(roof) < NEAR]
    held = bool(slow and fast) and fast.rate > slow.rate
    return Sides(held, memory, compute, slow, fast, near, far)


class Pages(NamedTuple):
    """A layer's work in memory that is fresh from the kernel each time, as by default that of
    tensors of 32 MiB and more is, and in memory that the process keeps; the page faults of each."""

    fresh: Work
    fresh_faults: int
    kept: Work
    kept_faults: int

    @property
    def held(self) -> bool:
        """Kept memory is clearly faster, and saves page faults."""
        faster = self.fresh.seconds > 1.2 * self.kept.seconds
        return faster and self.fresh_faults > 2 * self.kept_faults


def pages(name: str, module: nn.Module, given: Tensor) -> Pages:
    """The same layer and input in both kinds of memory, on all cores.

    In a process of its own: memory that this one has kept would be handed out again, and not fresh.
    """
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as own:
        return own.submit(_pages, name, module, given).result()


def _pages(name: str, module: nn.Module, given: Tensor) -> Pages:
    with with_threads(max(1, int(usable_cores()))):
        anew = _with_faults(name, module, given)
        with freed_memory_kept():
            layer_work(name, module, given, rounds=1)  # the first takes its memory from the kernel
            return Pages(*anew, *_with_faults(name, module, given))


def _with_faults(name: str, module: nn.Module, given: Tensor) -> tuple[Work, int]:
    """A layer's work, and the page faults of this process while it was measured."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    work = layer_work(name, module, given)
    return work, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


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
