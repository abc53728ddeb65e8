"""This machine's roofline, measured in a few seconds: one core and all of them, by number type.

python -m hpml.modules.m02_hardware.lecture.machine_roofline     # as a table, for a job's log
"""

import re
import resource
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from hpml.machine.freed_memory import freed_memory_kept
from hpml.machine.resources import usable_cores
from hpml.measure.bandwidth import KERNELS, bandwidth
from hpml.measure.clock import quickest, with_threads
from hpml.measure.compute import convolution_peak, fast_types, peak
from hpml.modules.m02_hardware.lecture.layers import layers
from hpml.modules.m02_hardware.lecture.roofline import COMPUTE, MEMORY, Roof, Work

SECONDS = 0.3  # for each measurement: long enough that some of it is undisturbed
NEAR = 0.5  # of what the limit allows: a layer from here on is near it


def machine_roofs(cores: Sequence[int] | None = None, gpu: bool = True) -> list[Roof]:
    """A roof for each number of cores (default: 1 and all) and each type that is fast here.

    Peaks are those of a matrix product or a convolution, whichever is faster; bandwidth is the best
    of `hpml.measure.bandwidth.KERNELS` on arrays that no cache holds. Where PyTorch sees a GPU, its
    roofs follow, unless `gpu` is false.
    """
    roofs = []
    for number in cores or _numbers_of_cores():
        memory = max(bandwidth(kernel, threads=number, seconds=SECONDS) for kernel in KERNELS)
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

    `given` is its input, for which a gradient is made too.
    """
    leaf = given.detach().requires_grad_()
    (layer,) = layers(module, leaf, rounds=rounds, whole=type(module))
    return Work(
        name,
        layer.forward.flops + layer.backward.flops,
        layer.forward.nbytes + layer.backward.nbytes,
        layer.forward.seconds + layer.backward.seconds,
    )


def works(layers: Mapping[str, tuple[nn.Module, Tensor]], adam: int) -> list[Work]:
    """Each layer with its input, by name, and Adam's step on so many parameters; on all cores.

    Freed memory is kept, as the course's training script does: else most of a ReLU's seconds are
    the kernel's, for pages that it clears (`fresh_pages`).
    """
    with with_threads(max(1, int(usable_cores()))), freed_memory_kept():
        return [*(layer_work(name, *layer) for name, layer in layers.items()), adam_work(adam)]


def roofs_and_works(
    layers: Mapping[str, tuple[nn.Module, Tensor]], adam: int
) -> tuple[list[Roof], list[Work]]:
    """`machine_roofs` and `works`, the roofs measured before and after, and the better one taken.

    On a machine that is shared, memory may be half as fast for seconds on end. A roof measured at
    such a moment would be below what a layer reaches at the next.
    """
    before = machine_roofs()
    measured = works(layers, adam)
    after = {roof.name: roof for roof in machine_roofs(sorted(_numbers_of_cores(), reverse=True))}
    best = [
        Roof(
            roof.name,
            max(roof.peak, after[roof.name].peak),
            max(roof.bandwidth, after[roof.name].bandwidth),
        )
        for roof in before
    ]
    return best, measured


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


def finding(works: Sequence[Work], roof: Roof) -> tuple[bool, str, str]:
    """What `hpml.publish.conclude` takes: the limit of each, and the fastest on either side."""
    by_limit = {MEMORY: [], COMPUTE: []}
    for work in works:
        by_limit[roof.binding(work.intensity)].append(work)
    slow = max(by_limit[MEMORY], key=lambda work: work.rate, default=None)
    fast = max(by_limit[COMPUTE], key=lambda work: work.rate, default=None)
    if slow is None or fast is None:
        return False, "", "all layers are on one side of the ridge here."
    names = {limit: ", ".join(work.name for work in some) for limit, some in by_limit.items()}
    sentence = (
        f"**Answer.** The ridge is at {roof.ridge:.1f} FLOP/byte ({roof.name}). Left of it, "
        f"*memory* is the limit: {names[MEMORY]}. Right of it, *compute* is: {names[COMPUTE]}. The "
        f"fastest on the left ({slow.name}) reaches {slow.rate / 1e9:.0f} GFLOP/s, the fastest on "
        f"the right ({fast.name}) {fast.rate / 1e9:.0f}. {_held_back(works, roof)}"
    )
    otherwise = (
        f"{slow.name} reached {slow.rate / 1e9:.0f} GFLOP/s, {fast.name} {fast.rate / 1e9:.0f}. "
        "That can be: other programs use these cores too."
    )
    return fast.rate > slow.rate, sentence, otherwise


def _held_back(works: Sequence[Work], roof: Roof) -> str:
    """Which of them come near their limit, and how far from it the others stay."""
    near = [work.name for work in works if work.share(roof) >= NEAR]
    far = [f"{work.name} {work.share(roof):.0%}" for work in works if work.share(roof) < NEAR]
    sentence = f"More than half of what the limit allows: {', '.join(near) or 'none'}."
    if far:
        sentence += (
            f" The others reach less ({', '.join(far)}): not the limit, something else holds them "
            "back."
        )
    return sentence


def fresh_pages(name: str, module: nn.Module, given: Tensor) -> tuple[bool, str, str]:
    """For `conclude`: what a layer takes where its tensors come from the kernel each time, as by
    default those of 32 MiB and more do, and where the process keeps freed memory."""
    with with_threads(max(1, int(usable_cores()))):
        anew = _with_faults(name, module, given)
        with freed_memory_kept():
            layer_work(name, module, given, rounds=1)  # the first takes its memory from the kernel
            kept = _with_faults(name, module, given)
    return pages_finding(anew, kept)


def pages_finding(anew: tuple[Work, int], kept: tuple[Work, int]) -> tuple[bool, str, str]:
    """For `conclude`: a layer in fresh and in kept memory, each with its page faults."""
    (slow, many), (quick, few) = anew, kept
    seen = (
        f"in memory that is fresh from the kernel each time {slow.name} takes "
        f"{1e3 * slow.seconds:.1f} ms, and in memory that the process keeps "
        f"{1e3 * quick.seconds:.1f} ms"
    )
    sentence = (
        f"**Answer.** Yes: {seen}, {slow.seconds / quick.seconds:.1f} times as fast. The "
        f"difference is the kernel's work: {many:,} page faults against {few:,} while they were "
        "measured. The table and the picture have kept memory."
    )
    held = slow.seconds > 1.2 * quick.seconds and many > 2 * few
    return held, sentence, f"{seen}, with {many:,} and {few:,} page faults. Other systems differ."


def _with_faults(name: str, module: nn.Module, given: Tensor) -> tuple[Work, int]:
    """A layer's work, and the page faults of this process while it was measured."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    work = layer_work(name, module, given)
    return work, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def cache_finding(sweeps: Mapping[str, Mapping[int, float]]) -> tuple[bool, str, str]:
    """What `hpml.publish.conclude` takes: how much faster the caches are than memory."""
    copy = sweeps["copy"]
    near, far = max(copy.values()), copy[max(copy)]
    seen = (
        f"one core copies {near / 1e9:.0f} GB/s where the arrays fit into a cache, "
        f"{far / 1e9:.0f} GB/s in memory"
    )
    return (
        near > 1.5 * far,
        f"**Answer.** Here {seen}: {near / far:.1f} times.",
        f"{seen}. That can be: other programs use the same caches and the same memory.",
    )


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
