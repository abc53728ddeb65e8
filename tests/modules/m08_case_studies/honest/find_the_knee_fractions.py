# %%answer find_the_knee
# unusual: exact fractions, a sort and groupby, a recursion from node to node
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from itertools import groupby


def exact(value):
    return Fraction(str(value))


def bill(job, ranks, rate):
    hours = exact(job["images"]) / exact(rate) / 3600
    full, rest = divmod(ranks, job["per_node"])
    money = (full + bool(rest)) * hours * exact(job["node_hour"])
    return float(hours), float(Decimal(float(money)).quantize(Decimal("0.01"), ROUND_HALF_EVEN))


def cheapest(job):
    best = (float("inf"), 0.0, None)
    for ranks, rate in sorted(job["measured"], reverse=True):
        hours, money = bill(job, ranks, rate)
        if hours <= job["deadline"] and (money, hours) < best[:2]:
            best = (money, hours, ranks)
    return best[2]


def find_the_knee(job):
    def nodes(point):
        return (point[0] + job["per_node"] - 1) // job["per_node"]

    groups = groupby(sorted(job["measured"]), key=nodes)
    points = [(count, *max(group, key=lambda point: point[1])) for count, group in groups]
    least = exact(job["worth"]) * exact(points[0][2]) / points[0][0]

    def climb(now, rest):
        if not rest or exact(rest[0][2]) - exact(now[2]) < least * (rest[0][0] - now[0]):
            return now[1]
        return climb(rest[0], rest[1:])

    return climb(points[0], points[1:])
