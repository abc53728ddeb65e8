# %%answer roofline
# unusual: numpy's integers and floats, shapes as arrays, a helper for the bytes, lists for pairs
import numpy as np
import torch


def nbytes(dtype, *shapes):
    one = torch.empty(0, dtype=dtype).element_size()
    return int(sum(np.prod(shape, dtype=np.int64) for shape in shapes)) * one


def matmul(m, k, n, dtype):
    return [int(np.int64(2) * m * n * k), nbytes(dtype, (m, k), (k, n), (m, n))]


def conv2d(shape, out_channels, kernel, stride, padding, groups, dtype):
    shape, kernel, stride, padding = map(np.asarray, (shape, kernel, stride, padding))
    size = np.floor((shape[2:] + 2 * padding - kernel) / stride).astype(np.int64) + 1
    weights = np.array([out_channels, shape[1] // groups, *kernel])
    result = np.array([shape[0], out_channels, *size])
    multiplies = np.prod(result, dtype=np.int64) * np.prod(weights[1:], dtype=np.int64)
    return [float(2 * multiplies), nbytes(dtype, shape, weights, result)]


def elementwise(shape, inputs, operations, dtype):
    return [operations * int(np.prod(shape)), nbytes(dtype, *[shape] * (inputs + 1))]


def roofline(flops, traffic, unit, machine):
    names = [unit, *traffic]
    times = np.array([flops, *traffic.values()]) / np.array([machine[name] for name in names])
    seconds = float(times.max())
    return [flops / traffic["memory"], seconds, flops / seconds, names[int(times.argmax())]]
