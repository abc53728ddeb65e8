# %%answer choose_layout
# unusual: torch, every layout at once by broadcasting over five axes, float64; what is not legal or
# does not fit takes infinitely long; a namedtuple; torch's numbers in the layout
from collections import namedtuple

import torch

Sizes = namedtuple("Sizes", "data tensor pipeline stage micro_batches")


def tensors(layout):
    return Sizes(*(torch.as_tensor(layout[name]) for name in Sizes._fields))


def parameters(model, at):
    return 12.0 * model["width"] ** 2 * model["layers"] / (at.tensor * at.pipeline).double()


def tokens(model, at):
    return model["tokens"] * model["sequences"] / (at.data * at.micro_batches).double()


def held(model, at):
    shared = 1 / at.data.double()
    whole = [torch.where(at.stage < first, 1.0, shared) for first in (3, 2, 1)]
    states = parameters(model, at) * (2 * whole[0] + 2 * whole[1] + 12 * whole[2])
    few = torch.clamp(2 * at.pipeline / model["layers"], max=1.0)
    states = states + torch.where(at.stage == 3, 1 - shared, 0.0) * 2 * parameters(model, at) * few
    each = model["width"] * (24 / at.tensor.double() + 10) * model["layers"] / at.pipeline
    return states + each * tokens(model, at) * torch.minimum(at.pipeline, at.micro_batches)


def taken(model, cluster, at):
    nodes = torch.tensor(cluster["per_node"])

    def beta(block):
        inside = torch.remainder(nodes, block) == 0
        return torch.where(inside, 1 / cluster["inside"], 1 / cluster["across"]).double()

    def half(ranks, apart):
        on_node = torch.gcd(ranks, torch.div(nodes, apart, rounding_mode="floor"))
        near = torch.where(torch.remainder(nodes, apart) == 0, on_node, 1).double()
        return (1 - 1 / near) / cluster["inside"] + (1 / near - 1 / ranks) / cluster["across"]

    n, sent = parameters(model, at), 2 * tokens(model, at) * model["width"]
    compute = 3 * n * sent / model["width"] / cluster["flops"]
    copy = at.tensor * at.pipeline
    reduces = 8 * model["layers"] / at.pipeline * half(at.tensor, torch.ones_like(at.tensor))
    on = (at.pipeline > 1) * 2 / at.tensor * beta(copy)
    slot = compute + sent * (reduces + on)
    u = 2 * n * half(at.data, copy)
    late = torch.relu(torch.where(at.stage % 3 == 0, 2 * u, u) - compute / 1.5)
    late = late + torch.where(at.stage == 3, torch.relu(u - compute / 3), 0.0)
    times = torch.where(at.stage >= 2, at.micro_batches, 1)
    after = torch.where((at.stage == 1) | (at.stage == 2), u, 0.0)
    return slot * (at.micro_batches + at.pipeline - 1) + times * late + after


def nbytes(model, layout):
    return held(model, tensors(layout)).item()


def seconds(model, cluster, layout):
    at = Sizes(*(value.reshape(1) for value in tensors(layout)))
    return taken(model, cluster, at).item()


def divisors(number):
    return torch.tensor([k for k in range(1, number + 1) if not number % k])


def choose(model, cluster):
    few = divisors(cluster["ranks"])
    axes = (few, few, few, torch.arange(4), divisors(model["sequences"]))
    at = Sizes(*torch.meshgrid(*axes, indexing="ij"))
    good = at.data * at.tensor * at.pipeline == cluster["ranks"]
    good &= model["heads"] % at.tensor == 0
    good &= model["layers"] % at.pipeline == 0
    good &= model["sequences"] % (at.data * at.micro_batches) == 0
    good &= held(model, at) <= cluster["memory"]
    if not good.any():
        return None
    best = taken(model, cluster, at).masked_fill(~good, torch.inf).argmin()
    return {name: values.flatten()[best] for name, values in zip(Sizes._fields, at)}
