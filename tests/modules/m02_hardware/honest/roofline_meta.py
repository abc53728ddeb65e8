# %%answer roofline
# unusual: tensors without memory (device meta) for the shapes, and rates instead of times
import math

import torch
from torch import nn


def conv2d(shape, out_channels, kernel, stride, padding, groups, dtype):
    with torch.device("meta"):
        layer = nn.Conv2d(
            shape[1], out_channels, kernel, stride, padding, groups=groups, bias=False
        )
        x = torch.empty(shape)
        y = layer(x)
    flops = 2 * y.numel() * layer.weight[0].numel()
    return flops, dtype.itemsize * sum(t.numel() for t in (x, layer.weight, y))


def matmul(m, k, n, dtype):
    with torch.device("meta"):
        tensors = [torch.empty(s, dtype=dtype) for s in ((m, k), (k, n), (m, n))]
    return 2 * k * tensors[2].numel(), sum(t.nbytes for t in tensors)


def elementwise(shape, inputs, operations, dtype):
    x = torch.empty(shape, dtype=dtype, device="meta")
    return x.numel() * operations, x.nbytes * inputs + x.nbytes


def roofline(flops, traffic, unit, machine):
    intensity = flops / traffic["memory"]
    if flops == 0:
        roof = max(traffic, key=lambda level: traffic[level] / machine[level])
        return intensity, traffic[roof] / machine[roof], 0.0, roof
    ceilings = {unit: machine[unit]}
    for level, moved in traffic.items():
        ceilings[level] = flops / moved * machine[level]
    rate, roof = min((ceiling, name) for name, ceiling in ceilings.items())
    assert math.isfinite(rate)
    return intensity, flops / rate, rate, roof
