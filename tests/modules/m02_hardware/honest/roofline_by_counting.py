# %%answer roofline
# unusual: counts windows with range, sums of parts in dicts, fractions instead of floats
from fractions import Fraction
from functools import reduce
from operator import mul


def size(dtype, *shapes):
    return sum(reduce(mul, shape) for shape in shapes) * dtype.itemsize


def matmul(m, k, n, dtype):
    multiplications = additions = m * n * k
    return multiplications + additions, size(dtype, (m, k), (k, n), (m, n))


def conv2d(shape, out_channels, kernel, stride, padding, groups, dtype):
    places = [
        len(range(-pad, length + pad - width + 1, step))
        for length, width, step, pad in zip(shape[2:], kernel, stride, padding, strict=True)
    ]
    filters = (out_channels, shape[1] // groups, *kernel)
    result = (shape[0], out_channels, *places)
    flops = 0
    for _ in range(groups):  # each group is a convolution of its own
        one = (shape[0], out_channels // groups, *places)
        flops += 2 * reduce(mul, one) * reduce(mul, filters[1:])
    return flops, size(dtype, shape, filters, result)


def elementwise(shape, inputs, operations, dtype):
    return operations * reduce(mul, shape), size(dtype, *[shape for _ in range(inputs)], shape)


def roofline(flops, traffic, unit, machine):
    demands = {**traffic, unit: flops}
    times = sorted(
        (Fraction(asked) / Fraction(machine[roof]), roof) for roof, asked in demands.items()
    )
    slowest, name = times[-1]
    return float(Fraction(flops, traffic["memory"])), float(slowest), float(flops / slowest), name
