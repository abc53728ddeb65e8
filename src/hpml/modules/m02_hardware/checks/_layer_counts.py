"""FLOP and bytes of layers: what is right, and what usual mistakes make of it.

The FLOP of products and convolutions come from PyTorch's own table of formulas, which
`torch.utils.flop_counter.FlopCounterMode` looks up for each operation that it sees. The mode itself
imports PyTorch's compiler, which takes a second.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils.flop_counter import conv_flop_count, mm_flop

Counts = tuple[float, float]  # FLOP and bytes
Call = Mapping[str, Any]  # the arguments of one call by name, the dtype by its name

# Mistakes about the size of one number, for every kind of layer
ITEM_MISTAKES = ("elements", "bits", "fixed")


def itemsize(dtype: str, mistake: str = "") -> int:
    """Bytes of a number of the dtype of this name."""
    size = getattr(torch, dtype).itemsize
    return {"elements": 1, "bits": 8 * size, "fixed": 4}.get(mistake, size)


def matmul(call: Call, mistake: str = "") -> Counts:
    m, k, n = call["m"], call["k"], call["n"]
    flops = mm_flop((m, k), (k, n))
    if mistake == "fma":
        flops //= 2
    if mistake == "minus_one":
        flops -= m * n
    left, right, result = m * k, k * n, m * n
    numbers = left + right + result
    if mistake == "weights":
        numbers -= right
    if mistake == "output":
        numbers -= result
    if mistake == "every_use":
        numbers = 2 * m * n * k + result
    return flops, itemsize(call["dtype"], mistake) * numbers


def outputs(call: Call, mistake: str = "") -> tuple[int, int]:
    """Height and width of a convolution's output, as `torch.nn.Conv2d` documents them."""
    sizes = []
    for axis in (0, 1):
        length, kernel = call["shape"][2 + axis], call["kernel"][axis]
        stride, padding = call["stride"][axis], call["padding"][axis]
        if mistake == "input_size":
            sizes.append(length)
            continue
        around = {"padding": 0, "one_side": padding}.get(mistake, 2 * padding)
        last = length + around - kernel  # where the last window could begin
        steps = last if mistake == "stride" else last // stride
        if mistake == "rounded_up":
            steps = -(-last // stride)
        sizes.append(steps + (mistake != "no_first"))
    return sizes[0], sizes[1]


def conv2d(call: Call, mistake: str = "") -> Counts:
    batch, channels, height, width = call["shape"]
    filters, groups = call["out_channels"], call["groups"]
    inside = channels if mistake == "groups" else channels // groups
    weights = [filters, inside, *call["kernel"]]
    result = [1 if mistake == "batch" else batch, filters, *outputs(call, mistake)]
    flops = conv_flop_count([*call["shape"]], weights, result)
    if mistake == "batch":
        flops = flops // batch
    if mistake == "fma":
        flops //= 2
    if mistake == "groups_twice":
        flops //= groups
    parts = {
        "input": batch * channels * height * width,
        "weights": math.prod(weights),
        "output": math.prod(result),
    }
    if mistake == "batch":
        parts["input"] //= batch
    if mistake == "batch_of_output":
        parts["output"] //= batch
    if mistake == "batch_of_weights":
        parts["weights"] *= batch
    if mistake == "padded":
        up, side = call["padding"]
        parts["input"] = batch * channels * (height + 2 * up) * (width + 2 * side)
    if mistake == "every_use":
        parts["input"] = parts["weights"] = flops // 2
    forgotten = {"input": "input", "weights": "weights", "output": "output"}.get(mistake)
    numbers = sum(count for part, count in parts.items() if part != forgotten)
    return flops, itemsize(call["dtype"], mistake) * numbers


def elementwise(call: Call, mistake: str = "") -> Counts:
    count, inputs, operations = math.prod(call["shape"]), call["inputs"], call["operations"]
    each = {"operations": 1, "per_input": operations * inputs, "fma": operations / 2}
    moved = {"output": inputs, "one_input": 2, "no_input": 1}
    flops = count * each.get(mistake, operations)
    return flops, count * moved.get(mistake, inputs + 1) * itemsize(call["dtype"], mistake)


COUNTED = {"matmul": matmul, "conv2d": conv2d, "elementwise": elementwise}

# The mistakes whose hints are tried, in this order: of the FLOP and of the bytes of each function
FLOP_MISTAKES = {
    "matmul": ("fma", "minus_one"),
    "conv2d": ("fma", "batch", "groups", "groups_twice", "input_size", "padding", "one_side",
               "stride", "rounded_up", "no_first"),
    "elementwise": ("operations", "per_input", "fma"),
}  # fmt: skip
BYTE_MISTAKES = {
    "matmul": (*ITEM_MISTAKES, "weights", "output", "every_use"),
    "conv2d": (*ITEM_MISTAKES, "weights", "output", "input", "groups", "batch",
               "batch_of_weights", "batch_of_output", "padded", "every_use", "input_size",
               "padding", "one_side", "stride", "rounded_up", "no_first"),
    "elementwise": (*ITEM_MISTAKES, "output", "one_input", "no_input"),
}  # fmt: skip
