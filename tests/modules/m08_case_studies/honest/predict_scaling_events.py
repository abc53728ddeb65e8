# %%answer predict_scaling
# unusual: a generator of buckets, float32 of torch for moments, fractions of a share: the fit looks
# for the smallest squared error over both points, first coarsely, then more finely
from functools import partial
from itertools import accumulate

import torch


def all_reduce_seconds(nbytes, ranks, network):
    if ranks == 1:
        return 0
    alpha, bits = network["inside"] if ranks <= network["per_node"] else network["across"]
    message = alpha + nbytes / ranks / (bits / 8)
    return sum(message for _ in range(2 * (ranks - 1)))


def gradients(job):
    layers = job["layers"][::-1]
    seconds = torch.tensor([flop for flop, _ in layers], dtype=torch.float32)
    seconds *= 2 * job["batch"] / (3 * job["alone"]) / seconds.sum()
    begin = job["batch"] / job["alone"] / 3
    moments = accumulate(seconds.tolist(), initial=begin)
    next(moments)
    yield from zip(moments, (nbytes for _, nbytes in layers), strict=True)


def buckets(job):
    size = 0
    for moment, nbytes in gradients(job):
        size += nbytes
        if size >= job["bucket_bytes"]:
            yield moment, size
            size = 0
    yield moment, size


def images_per_s(job, ranks, share=1.0, wait=0.0):
    alpha, rate = job["network"]["across"]
    send = partial(
        all_reduce_seconds, ranks=ranks, network=job["network"] | {"across": (alpha, rate * share)}
    )
    end = 0.0
    for moment, size in buckets(job):
        if size:
            end = max(end, moment) + send(size)
    step = max(end, job["batch"] / job["alone"])
    return job["batch"] * ranks / (step + wait * torch.tensor(float(ranks)).log2().item())


def error(job, points, share):
    """Squared relative error with the best wait from 0 on, and that wait."""
    logs = torch.tensor([float(p) for p, _ in points], dtype=torch.float64).log2()
    had = torch.tensor([p * job["batch"] / v for p, v in points], dtype=torch.float64)
    seconds = [p * job["batch"] / images_per_s(job, p, share) for p, _ in points]
    model = torch.tensor(seconds, dtype=torch.float64)
    wait = (((had - model) * logs / had**2).sum() / (logs**2 / had**2).sum()).clamp(min=0)
    return ((model + wait * logs) / had - 1).square().sum().item(), share, wait.item()


def fit(job, points):
    two = sorted(p for p in points if p[0] > job["network"]["per_node"])[:2]
    _, share, _ = min(error(job, two, n / 100) for n in range(1, 101))
    fine = [min(1.0, share + n / 2000) for n in range(-19, 20)]
    return list(min(error(job, two, one) for one in fine if one > 0)[1:])
