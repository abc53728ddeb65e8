# %%answer predict_scaling
# unusual: exact fractions but for the logarithm; a class whose properties are kept; the end of the
# network's work by a recursion over buckets; the best share by a generator and a running minimum
from fractions import Fraction
from functools import cached_property, lru_cache
from math import inf, log


def all_reduce_seconds(nbytes, ranks, network):
    return float(ring(Fraction(nbytes), ranks, network))


def ring(nbytes, ranks, network, share=Fraction(1)):
    inside = network["per_node"] >= ranks
    alpha, bits = map(Fraction, network["inside" if inside else "across"])
    if not inside:
        bits *= share
    return (ranks - 1) * 2 * (alpha + 8 * nbytes / ranks / bits)


class Step:
    def __init__(self, job):
        self.job = job

    @cached_property
    def compute(self):
        return Fraction(self.job["batch"]) / Fraction(self.job["alone"])

    @cached_property
    def buckets(self):
        """(moment at which it leaves, bytes), the last one first."""
        flop = [Fraction(f) for f, _ in self.job["layers"]]
        found, moment, size = [], self.compute / 3, 0
        for (_, nbytes), part in list(zip(self.job["layers"], flop))[::-1]:
            moment += part / sum(flop) * self.compute * 2 / 3
            size += nbytes
            if size >= self.job["bucket_bytes"]:
                found, size = [(moment, size), *found], 0
        return [(moment, size), *found] if size else found

    def end(self, ranks, share):
        @lru_cache(maxsize=None)
        def free(left):
            """When the network is free after all but so many of the last buckets."""
            if left == len(self.buckets):
                return Fraction(0)
            moment, size = self.buckets[left]
            return max(moment, free(left + 1)) + ring(size, ranks, self.job["network"], share)

        return max(self.compute, free(0))


def images_per_s(job, ranks, share=1.0, wait=0.0):
    doublings = log(ranks) / log(2)
    step = float(Step(job).end(ranks, Fraction(share))) + wait * doublings
    return job["batch"] / step * ranks


def fit(job, points):
    node = job["network"]["per_node"]
    (p, first), (q, second) = sorted(filter(lambda point: point[0] > node, points))[:2]
    step = Step(job)

    def misses():
        for percent in range(100, 0, -1):
            share = Fraction(percent, 100)
            wait = (p * job["batch"] / first - float(step.end(p, share))) / (log(p) / log(2))
            if wait >= 0:
                took = float(step.end(q, share)) + wait * log(q) / log(2)
                yield abs(q * job["batch"] / took - second), percent, wait

    best = (inf, 100, 0.0)
    for found in misses():
        best = min(best, found)
    return best[1] / 100, best[2]
