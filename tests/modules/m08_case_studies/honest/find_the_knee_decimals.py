# %%answer find_the_knee
# unusual: decimals rounded half up; ordered dataclasses, a heap of offers, a cache; the knee by
# itertools, and numpy's integers for ranks
import heapq
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from itertools import pairwise, takewhile

import numpy as np


@dataclass(order=True, frozen=True)
class Offer:
    money: Decimal
    hours: Decimal
    ranks: int = field(compare=False)


@cache
def exact(value):
    return Decimal(repr(value))


def offer(job, ranks, rate):
    hours = exact(job["images"]) / (exact(rate) * 3600)
    nodes = np.ceil(np.divide(ranks, job["per_node"])).astype(int)
    money = Decimal(int(nodes)) * hours * exact(job["node_hour"])
    return Offer(money.quantize(Decimal("0.01"), ROUND_HALF_UP), hours, ranks)


def bill(job, ranks, rate):
    one = offer(job, ranks, rate)
    return [np.float64(one.hours), np.float64(one.money)]


def cheapest(job):
    offers = [offer(job, *point) for point in job.pop("measured")]
    heapq.heapify(offers)
    while offers:
        best = heapq.heappop(offers)
        if best.hours <= exact(job["deadline"]):
            return np.int64(best.ranks)


class Curve(dict):
    """Of each number of nodes the fastest (images/s, ranks)."""

    def add(self, nodes, point):
        self[nodes] = max(self.get(nodes, point), point)
        return self


def find_the_knee(job):
    curve = Curve()
    for ranks, rate in job["measured"]:
        curve.add((ranks - 1) // job["per_node"] + 1, (exact(rate), ranks))
    points = sorted((nodes, *point) for nodes, point in curve.items())
    least = exact(job["worth"]) * points[0][1] / points[0][0]
    steps = pairwise(points)
    paying = takewhile(lambda s: s[1][1] - s[0][1] >= least * (s[1][0] - s[0][0]), steps)
    return np.int32([points[0], *(after for _, after in paying)][-1][2])
