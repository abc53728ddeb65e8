# %%answer choose_layout
# unusual: exact fractions; a class for a rank's part; the search is a recursion over the prime
# factors of the ranks, with sets, and a heap by seconds of which the first that fits is taken
from dataclasses import asdict, dataclass
from fractions import Fraction
from heapq import heapify, heappop
from itertools import count
from math import gcd


@dataclass(frozen=True)
class Split:
    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    stage: int = 0
    micro_batches: int = 1

    def tokens(self, model):
        return Fraction(model["sequences"] * model["tokens"], self.data * self.micro_batches)

    def parameters(self, model):
        return Fraction(12 * model["layers"] * model["width"] ** 2, self.tensor * self.pipeline)


def nbytes(model, layout):
    one = Split(**layout)
    shares = [Fraction(1, one.data if one.stage >= least else 1) for least in (3, 2, 1)]
    states = sum(b * s for b, s in zip((2, 2, 12), shares)) * one.parameters(model)
    layers = Fraction(model["layers"], one.pipeline)
    if one.stage == 3:
        states += 2 * one.parameters(model) * (1 - shares[0]) * min(1, 2 / layers)
    each = (10 + Fraction(24, one.tensor)) * model["width"]
    live = min(one.micro_batches, one.pipeline) * one.tokens(model)
    return float(states + each * live * layers)


def seconds(model, cluster, layout):
    return float(exact(model, cluster, Split(**layout)))


def exact(model, cluster, one):
    inside, across = Fraction(cluster["inside"]), Fraction(cluster["across"])

    def half(ranks, apart):
        near = gcd(ranks * apart, cluster["per_node"]) // apart  # 0: not one on a node
        near = near if near and cluster["per_node"] % apart == 0 else 1
        nodes = Fraction(ranks, near)
        return (1 - Fraction(1, near)) / inside + (1 - 1 / nodes) / near / across

    tokens, n = one.tokens(model), one.parameters(model)
    compute = 6 * n * tokens / Fraction(cluster["flops"])
    sent = 2 * tokens * model["width"]
    slot = compute
    if one.tensor > 1:
        reduces = 4 * Fraction(model["layers"], one.pipeline)
        slot += reduces * 2 * sent * half(one.tensor, 1)
    copy = one.tensor * one.pipeline
    if one.pipeline > 1:
        slot += 2 * sent / one.tensor / (across if cluster["per_node"] % copy else inside)
    total = slot * (one.micro_batches + one.pipeline - 1)
    if one.data > 1:
        u = 2 * n * half(one.data, copy)
        for _ in range(one.micro_batches if one.stage > 1 else 1):
            times = 2 - one.stage % 3 if one.stage < 2 else one.stage - 1
            total += max(Fraction(0), times * u - compute * 2 / 3)
            if one.stage == 3:
                total += max(Fraction(0), u - compute / 3)
        total += u if one.stage in (1, 2) else 0
    return total


def factors(number):
    for k in range(2, number + 1):
        if number % k == 0:
            return [k, *factors(number // k)]
    return []


def splits(left):
    if not left:
        return {(1, 1, 1)}
    k, *rest = left
    return {
        tuple(size * (k if place == at else 1) for at, size in enumerate(sizes))
        for sizes in splits(rest)
        for place in range(3)
    }


def choose(model, cluster):
    order, heap = count(), []
    for d, t, p in splits(factors(cluster["ranks"])):
        if model["heads"] % t or model["layers"] % p:
            continue
        for m in range(1, model["sequences"] + 1):
            if model["sequences"] % (d * m):
                continue
            for stage in range(4 if d > 1 else 1):
                one = asdict(Split(d, t, p, stage, m))
                heap.append((seconds(model, cluster, one), next(order), one))
    heapify(heap)
    while heap:
        _, _, one = heappop(heap)
        if nbytes(model, one) <= cluster["memory"]:
            return one
    return None
