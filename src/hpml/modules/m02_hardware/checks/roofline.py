"""Exercise roofline: what a layer asks of a machine, and which of its roofs binds.

`matmul`, `conv2d` and `elementwise` return FLOP and bytes; `roofline(flops, traffic, unit,
machine)` returns the arithmetic intensity, the seconds needed at least, the rate then, and the
roof that binds.
"""

import math
import random
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import torch

from hpml.checks.compare import described, is_number
from hpml.checks.contract import Check, Claim, Problem, Run
from hpml.checks.kits.ready_made import ALL_ELSE, FLOP_COUNTERS
from hpml.modules.m02_hardware.checks import _roofs
from hpml.modules.m02_hardware.checks._layer_counts import (
    BYTE_MISTAKES,
    COUNTED,
    FLOP_MISTAKES,
    Call,
)
from hpml.modules.m02_hardware.checks._roofline_picture import roofline_picture
from hpml.modules.m02_hardware.checks._roofs import Bound

NAMES = ("matmul", "conv2d", "elementwise", "roofline")
UNITS = ("matrix", "vector")
CACHES = ("L1", "L2", "L3")
DTYPES = ("float64", "float32", "bfloat16", "float16", "int8")
# What a drive returns where a function is still the stub, and where it divides by zero
UNWRITTEN, BY_ZERO = "NotImplementedError", "ZeroDivisionError"
TOLERANCE = 1e-9  # of seconds, rates and intensities


# ---- what is asked: layers and machines that are new each time


def products(draw: random.Random) -> Iterator[Call]:
    for dtype in draw.sample(DTYPES, len(DTYPES)):
        m, k, n = draw.sample(range(3, 3000), 3)
        yield {"m": m, "k": k, "n": n, "dtype": dtype}
    yield {"m": 1, "k": draw.randint(2, 999), "n": draw.randint(2, 999), "dtype": "float32"}


def convolutions(draw: random.Random) -> Iterator[Call]:
    """Plain, padded, strided with a rest, of several groups, of one channel each, and 1 × 1."""
    kinds = ("plain", "padded", "strided", "grouped", "depthwise", "pointwise", "everything")
    for kind, dtype in zip(kinds, [*DTYPES, "float16", "bfloat16"], strict=True):
        everything = kind == "everything"
        groups = draw.randint(2, 5) if kind in ("grouped", "depthwise") or everything else 1
        inside = 1 if kind == "depthwise" else draw.randint(2, 40)
        filters = groups * draw.randint(2, 30)
        height, width = draw.sample(range(15, 80), 2)
        kernel = [1, 1] if kind == "pointwise" else draw.sample(range(2, 8), 2)
        stride = [1, 1]
        if kind == "strided" or everything:
            stride = draw.sample(range(3, 6), 2)
            # One side of the window is a multiple of the stride, the other is not: an answer that
            # divides lengths and windows one by one, and rounds each down, is right for one side.
            kernel = [stride[0] * draw.randint(1, 2) + 1, stride[1] * draw.randint(1, 2)]
        padding = draw.sample(range(1, 5), 2) if kind == "padded" or everything else [0, 0]
        # The window does not fit a whole number of times. What is left over is not visited: as much
        # as can be, so that to round to the nearest number is wrong too.
        height += stride[0] - 1 - (height + 2 * padding[0] - kernel[0]) % stride[0]
        width += stride[1] - 1 - (width + 2 * padding[1] - kernel[1]) % stride[1]
        yield {
            "shape": [draw.randint(2, 64), groups * inside, height, width],
            "out_channels": filters,
            "kernel": kernel,
            "stride": stride,
            "padding": padding,
            "groups": groups,
            "dtype": dtype,
        }


def elementwise_layers(draw: random.Random) -> Iterator[Call]:
    """Of one to four dimensions; and a copy: no operation, and bytes all the same."""
    for dimensions, dtype in zip((1, 2, 3, 4, 0), draw.sample(DTYPES, len(DTYPES)), strict=True):
        copies = not dimensions
        shape = [draw.randint(3, 60) for _ in range(dimensions or 2)]
        operations = 0 if copies else draw.randint(2, 9)
        inputs = 1 if copies else draw.randint(2, 4)
        yield {"shape": shape, "inputs": inputs, "operations": operations, "dtype": dtype}


def bounds(draw: random.Random) -> Iterator[Call]:
    """Machines of one to three levels, each roof binding once, and a copy.

    Where the memory of three levels binds, half of its bytes pass the caches by.
    """
    for caches, roof in ((0, "memory"), (1, "cache"), (1, "matrix"), (2, "cache"), (2, "vector"),
                         (2, "memory"), (0, "vector"), (1, "copy")):  # fmt: skip
        levels = [*draw.sample(CACHES, caches), "memory"]
        peak = draw.uniform(1e12, 2e13)
        machine = {"vector": peak, "matrix": peak * draw.uniform(4, 16)}
        unit = roof if roof in UNITS else draw.choice(UNITS)
        binding = {"cache": levels[0], "copy": "memory"}.get(roof, roof)
        slowest = draw.uniform(1e-5, 1e-1)  # seconds under the roof that binds
        traffic, reach = {}, draw.uniform(8, 40)
        for level in levels:
            machine[level] = peak / reach  # bytes/s: the memory is the slowest level
            under = slowest * (1 if level == binding else draw.uniform(0.2, 0.7))
            traffic[level] = round(under * machine[level])
            reach *= draw.uniform(2, 4)
        if roof == "memory" and caches:
            for level in levels[:-1]:
                traffic[level] = traffic["memory"] // 2
        if roof in UNITS:  # the memory is at the beginning of these, and at the end of the others
            traffic = dict(reversed(traffic.items()))
        under = slowest * (1 if unit == binding else draw.uniform(0.2, 0.7))
        flops = 0 if roof == "copy" else round(under * machine[unit])
        items = list(machine.items())
        draw.shuffle(items)  # so that no place in the dict says anything
        yield {"flops": flops, "traffic": traffic, "unit": unit, "machine": dict(items)}


def inputs(seed: int, world_size: int) -> list[dict[str, list[Call]]]:
    """The arguments of each function's calls."""
    draw = random.Random(seed)
    kinds = (products, convolutions, elementwise_layers, bounds)
    found = {}
    for name, kind in zip(NAMES, kinds, strict=True):
        calls = list(kind(draw))
        found[name] = draw.sample(calls, len(calls))
    return [found]


def drive(answer: ModuleType, inputs: dict[str, list[dict[str, Any]]]) -> dict[str, list[Any]]:
    """What each function returns for each call. One that is not written yet does not keep the
    others from being judged, unless none is written."""

    def asked(name: str, call: dict[str, Any]) -> Any:
        given = {key: tuple(one) if isinstance(one, list) else one for key, one in call.items()}
        if "dtype" in given:
            given["dtype"] = getattr(torch, call["dtype"])
        try:
            return getattr(answer, name)(**given)
        except NotImplementedError as error:
            unwritten.append(error)
            return UNWRITTEN
        except ZeroDivisionError:
            return BY_ZERO

    unwritten: list[NotImplementedError] = []
    found = {name: [asked(name, call) for call in calls] for name, calls in inputs.items()}
    if len(unwritten) == sum(map(len, inputs.values())):
        raise unwritten[0]
    return found


def expect(inputs: list[dict[str, list[Call]]], world_size: int) -> dict[str, list[Any]]:
    counted = {name: list(map(count, inputs[0][name])) for name, count in COUNTED.items()}
    return counted | {"roofline": [_roofs.bound(call) for call in inputs[0]["roofline"]]}


# ---- the judges


def words(name: str, call: Call) -> str:
    """A call as the beginning of a sentence has it."""
    shown = ", ".join(f"{key}={tuple(v) if isinstance(v, list) else v}" for key, v in call.items())
    return f"{name}({shown})"


def bound_words(call: Call) -> str:
    """The same of a call of roofline, in which the machine's figures would be most of it."""
    moved = ", ".join(
        f"{count:.4g} bytes through {level}" for level, count in call["traffic"].items()
    )
    return f"roofline of {call['flops']:.4g} FLOP on {call['unit']} units, {moved},"


def is_pair(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and all(map(is_number, value))


def malformed(run: Run, name: str) -> Problem | None:
    """What is wrong with the form of what a counting function returned."""
    for call, value in zip(run.inputs[0][name], run.values[0][name], strict=True):
        if value == UNWRITTEN:
            return Problem(f"{name} is not written yet", f"{name}_flops")
        if not is_pair(value):
            return Problem(f"{words(name, call)} is {described(value)}", "pair", "(FLOP, bytes)")
    return None


def miscounted(run: Run, name: str, place: int) -> Problem | None:
    """The first wrong count of FLOP (place 0) or bytes (place 1), with the mistake's hint."""
    calls = run.inputs[0][name]
    got = [value[place] for value in run.values[0][name]]
    right = [counts[place] for counts in run.expected[name]]
    for call, count, due in zip(calls, got, right, strict=True):
        if count != due:
            unit = ("FLOP", "bytes")[place]
            hint = _mistaken(name, place, calls, got)
            return Problem(f"{words(name, call)} has {count} {unit}", hint, str(due))
    return None


def _mistaken(name: str, place: int, calls: list[Call], got: list[float]) -> str:
    """The hint for the first usual mistake that explains all counts."""
    for mistake in (FLOP_MISTAKES, BYTE_MISTAKES)[place][name]:
        if [COUNTED[name](call, mistake)[place] for call in calls] == got:
            return mistake if mistake in CHECK.hints else f"{name}_{mistake}"
    return f"{name}_flops" if place == 0 else f"{name}_bytes"


def counts(name: str, *places: int) -> Callable[[Run], Problem | None]:
    """The judge of a counting function: of its FLOP (0), its bytes (1), or both."""

    def judge(run: Run) -> Problem | None:
        if problem := malformed(run, name):
            return problem
        return next(filter(None, (miscounted(run, name, place) for place in places)), None)

    return judge


def bounds_are_right(run: Run) -> Problem | None:
    calls, got = run.inputs[0]["roofline"], run.values[0]["roofline"]
    for call, value in zip(calls, got, strict=True):
        if value == UNWRITTEN:
            return Problem("roofline is not written yet", "roofs")
        if value != BY_ZERO and not is_bound(value):
            form = "(FLOP per byte, seconds, FLOP/s, a roof's name)"
            return Problem(f"{bound_words(call)} is {described(value)}", "four", form)
    # A division by zero is where another mistake shows; it is reported if there is none.
    found = [None if value == BY_ZERO else Bound(*value) for value in got]
    seconds = _compared(run, found, "seconds", _roofs.wrong_seconds, "s", "roofs")
    if seconds is not None:
        return seconds
    for call, one, due in zip(calls, found, run.expected["roofline"], strict=True):
        if one is not None and one.roof != due.roof:
            seen = f"{bound_words(call)} names the roof {one.roof!r}"
            return Problem(seen, "name", repr(due.roof))
    intensity = _compared(
        run, found, "intensity", _roofs.wrong_intensities, "FLOP per byte", "intensity"
    )
    rate = _compared(run, found, "rate", _roofs.wrong_rates, "FLOP/s", "rate")
    if problem := intensity or rate:
        return problem
    for call, one in zip(calls, found, strict=True):
        if one is None:
            return Problem(f"{bound_words(call)} divides by zero", "copy")
    return None


def is_bound(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and len(value) == 4
        and all(map(is_number, value[:3]))
        and isinstance(value[3], str)
    )


def _compared(
    run: Run,
    found: list[Bound | None],
    field: str,
    mistakes: Callable[[Call], Mapping[str, float]],
    unit: str,
    otherwise: str,
) -> Problem | None:
    """The first wrong number of this field, with the hint for the mistake that explains all."""
    calls, right = run.inputs[0]["roofline"], run.expected["roofline"]
    asked = [
        (call, getattr(one, field), getattr(due, field))
        for call, one, due in zip(calls, found, right, strict=True)
        if one is not None
    ]
    for call, got, due in asked:
        if not _close(got, due):
            wrong = [(number, mistakes(one)) for one, number, _ in asked]
            hints = (
                hint
                for hint in wrong[0][1]
                if all(_close(number, by_mistake[hint]) for number, by_mistake in wrong)
            )
            seen = f"{bound_words(call)} has {got:.6g} {unit}"
            return Problem(seen, next(hints, otherwise), f"{due:.6g}")
    return None


def _close(got: float, due: float) -> bool:
    return math.isclose(got, due, rel_tol=TOLERANCE)


CHECK = Check(
    id="roofline",
    title="What a layer asks for, and which roof binds",
    names=NAMES,
    to_write="FLOP and bytes of three kinds of layers, and the time that a machine needs at least",
    allowed=ALL_ELSE,
    not_allowed=(FLOP_COUNTERS,),
    worlds=(1,),
    process_group=False,
    inputs=inputs,
    drive=drive,
    expect=expect,
    picture=roofline_picture,
    claims=(
        Claim("a product's FLOP and bytes are counted", 3, counts("matmul", 0, 1)),
        Claim("a convolution's FLOP are those that PyTorch counts", 4, counts("conv2d", 0)),
        Claim("its bytes are those of input, weights and output", 3, counts("conv2d", 1)),
        Claim(
            "an elementwise layer moves each input and its output", 2, counts("elementwise", 0, 1)
        ),
        Claim("the roof that takes longest sets the time", 3, bounds_are_right),
    ),
    hints={
        "start": "Compute one number of the output by hand. How many multiplications does it take, "
        "and how many additions? How many such numbers are there?",
        "pair": "The function returns two numbers: (FLOP, bytes).",
        "fma": "A multiplication and an addition are two operations, even where the hardware does "
        "both in one instruction. Vendors count so too.",
        "minus_one": "The first product is added to zero, and that addition counts: k additions "
        "for each number, not k - 1. So vendors and PyTorch count.",
        "matmul_flops": "Each of the m × n numbers of the result is a sum of k products.",
        "matmul_bytes": "Three matrices move: two are read, one is written. Each at least once.",
        "elements": "Bytes, not numbers: how many bytes has one number of this dtype?",
        "bits": "Bytes, not bits: a float32 has 4.",
        "fixed": "Not every number has 4 bytes: the dtype says how many.",
        "weights": "The weights are read from memory too: the second matrix of a product, the "
        "filters of a convolution.",
        "output": "The result is written to memory. That takes its bytes as well.",
        "input": "The layer's input is read from memory. Where are its bytes?",
        "every_use": "A number that is used many times is read once here: caches and registers "
        "keep it. These are the least bytes that can move.",
        "batch": "The layer works on a whole batch: shape[0] images.",
        "batch_of_output": "The layer works on a whole batch: each image has an output of its own.",
        "batch_of_weights": "All images of the batch use the same weights: they are read once.",
        "groups": "With groups, a filter sees only the channels of its group: how many are these?",
        "groups_twice": "Each output channel belongs to one group, so there are still "
        "out_channels of them. What groups make smaller is the number of channels that one sees.",
        "input_size": "The output is not as high and wide as the input. How many places has a "
        "window of 3 on a row of 5? And with stride 2?",
        "padding": "Padding makes the input larger before the window moves over it.",
        "one_side": "Padding is added on both sides: above and below, left and right.",
        "padded": "The zeros of the padding are not read from memory: nobody stores them.",
        "stride": "With stride 2 the window stops at every second place only.",
        "rounded_up": "A window that would reach beyond the edge is not computed: round down.",
        "no_first": "Count the places, not the steps between them: the window also stops where it "
        "begins.",
        "conv2d_flops": "Each number of the output is a sum of products: over the kernel's height "
        "and width, and over the input channels that its filter sees. How many numbers has the "
        "output? Take a row of 7 with a window of 3, padding 1 and stride 2, on paper.",
        "conv2d_bytes": "Three tensors move: the input as it is stored, the weights, and the "
        "output. What is the shape of each?",
        "operations": "`operations` is how many operations each number of the output takes.",
        "per_input": "`operations` already is for all inputs together: per number of the output.",
        "one_input": "There may be several inputs of this shape. A sum of two tensors reads both.",
        "no_input": "Inputs are read, the output is written: both move.",
        "elementwise_flops": "How many numbers has the output, and how many operations does each "
        "take?",
        "elementwise_bytes": "Each input has the output's shape. Each moves once.",
        "four": "roofline returns four values: FLOP per byte of memory, seconds, FLOP/s, and the "
        "name of the roof.",
        "roofs": "Each roof alone gives a time: the unit's FLOP/s for the FLOP, a level's bytes/s "
        "for that level's bytes. The parts of the machine work at the same time.",
        "min": "All of it has to be done. If computing takes 1 ms and reading 5 ms, at the same "
        "time: when is the layer ready?",
        "sum": "The machine computes while it moves bytes. At best the times overlap wholly.",
        "memory_only": "The caches have a bandwidth too, and more bytes go through them than "
        "through the memory. Look at every level of `traffic`.",
        "compute_only": "That is the time if bytes cost nothing. Which levels does `traffic` have?",
        "levels_only": "That is the time if computing costs nothing. How long does `unit` take?",
        "other_unit": "A machine has two kinds of units. `unit` names the one that this layer runs "
        "on.",
        "all_traffic": "The bytes of each level go through that level alone, with its bandwidth.",
        "inverted_seconds": "Work divided by speed is time. What is speed divided by work?",
        "name": "The roof that binds is the one with the longest time: the name of the unit, or of "
        "the level.",
        "inverted": "Intensity is FLOP per byte: which of the two is divided by the other?",
        "all_levels": "The intensity here is per byte of the memory, not of all levels together.",
        "first_level": "The intensity here is per byte of the level that is called memory.",
        "intensity": "Arithmetic intensity: FLOP for each byte that moves through the memory.",
        "peak": "The peak is reached only under the unit's own roof. How many FLOP are done in the "
        "seconds that you found?",
        "fastest_roof": "A layer stays under all roofs: its rate is the lowest of them.",
        "inverted_rate": "A rate is work per time.",
        "rate": "The attainable rate: the layer's FLOP, in the seconds that it takes.",
        "copy": "A copy computes nothing, and it takes time all the same. Which of the times is "
        "not zero then?",
    },
)
