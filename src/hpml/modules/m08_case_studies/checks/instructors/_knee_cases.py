"""Scaling curves of clusters that never were, with a price, a deadline and the right choice.

A job is what an answer is given (see `find_the_knee.py`). Jobs are drawn so that no choice hangs on
a rounding: deadlines, thresholds and bills are apart by more than honest arithmetic can differ.
"""

import math
import random
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

Job = dict[str, Any]
Choice = int | None

PLAIN, MEMORY, LATE, TIED, NEAR = "plain", "memory", "late", "tied", "near"
DEADLINES = {PLAIN: 16, MEMORY: 6}  # jobs of each kind for the cheapest way
# Nothing meets the deadline; the least bills are equal to a cent; or they differ by some cents
EDGES = {LATE: 5, TIED: 5, NEAR: 3}
KNEES = 30
DENTED = 5  # of them: beyond the first step that does not pay there is one that would
# Where the fastest size of the smallest number of nodes does not fill them, and it matters
PART = 3
CACHED = 3  # where the images fit into memory a node brings more than at the smallest number
BILLS = 10
APART = 0.005  # relative: hours from the deadline, an added node's gain from what is enough
CENTS = 0.05  # two bills that differ at all differ by so much
FEW_CENTS = 0.3  # and where the difference is small, by no more
NODES = (1, 2, 3, 4, 6, 8, 12, 16)


def nodes_of(job: Job, ranks: int) -> int:
    """Nodes to pay for: whole ones."""
    return -(-ranks // job["per_node"])


def exact_bill(job: Job, ranks: int, rate: float) -> tuple[float, float]:
    """Hours, and money that is not rounded."""
    hours = job["images"] / rate / 3600
    return hours, nodes_of(job, ranks) * hours * job["node_hour"]


def cheapest(job: Job) -> Choice:
    """The ranks with the least money in time; of equal bills (to a cent) the sooner one."""
    bills = [(*exact_bill(job, ranks, rate), ranks) for ranks, rate in job["measured"]]
    timely = [
        (round(money, 2), hours, ranks) for hours, money, ranks in bills if hours <= job["deadline"]
    ]
    return min(timely)[2] if timely else None


def curve(job: Job) -> list[tuple[int, float, int]]:
    """(nodes, images/s, ranks) of the fastest size of each number of nodes, ascending."""
    fastest: dict[int, tuple[float, int]] = {}
    for ranks, rate in job["measured"]:
        nodes = nodes_of(job, ranks)
        if rate > fastest.get(nodes, (0.0, 0))[0]:
            fastest[nodes] = rate, ranks
    return [(nodes, *fastest[nodes]) for nodes in sorted(fastest)]


def gains(job: Job, *, best: bool = False) -> list[float]:
    """What a node brings that the k-th step adds, over what one brings at the smallest number.

    `best`: over what one brings where that is most, which is the wrong yardstick.
    """
    points = curve(job)
    each = [rate / nodes for nodes, rate, _ in points]
    one = max(each) if best else each[0]
    steps = pairwise(points)
    return [(after[1] - now[1]) / (after[0] - now[0]) / one for now, after in steps]


def knee(job: Job, *, best: bool = False) -> int:
    """The ranks before the first step that does not pay. `best` as in `gains`."""
    return curve(job)[_steps_that_pay(job, best=best)][2]


def knee_by_full_nodes(job: Job) -> int:
    """The same with a wrong yardstick: that of a node filled with ranks as fast as the first."""
    points = curve(job)
    _, rate, ranks = points[0]
    one = rate / ranks * job["per_node"]
    for now, after in pairwise(points):
        if (after[1] - now[1]) / (after[0] - now[0]) < job["worth"] * one:
            return now[2]
    return points[-1][2]


def _steps_that_pay(job: Job, *, best: bool = False) -> int:
    """How many steps pay before the first one that does not."""
    steps = gains(job, best=best)
    return next((k for k, gain in enumerate(steps) if gain < job["worth"]), len(steps))


@lru_cache(maxsize=8)
def deadline_jobs(seed: int) -> tuple[Job, ...]:
    """For `cheapest`: some size meets the deadline, and no two bills are alike."""
    draw = random.Random(f"deadlines {seed}")
    return tuple(_drawn(draw, kind) for kind, count in DEADLINES.items() for _ in range(count))


@lru_cache(maxsize=8)
def edge_jobs(seed: int) -> tuple[Job, ...]:
    """For `cheapest`: nothing meets the deadline, or the least bills are equal, or nearly so.

    Where they are equal, one to three sizes are sooner and dearer: the soonest without a bill is
    wrong. Where they are nearly equal, so is the soonest of bills that are rounded to whole units.
    """
    draw = random.Random(f"edges {seed}")
    jobs = [_drawn(draw, kind) for kind, count in EDGES.items() for _ in range(count)]
    draw.shuffle(jobs)
    return tuple(jobs)


@lru_cache(maxsize=8)
def knee_jobs(seed: int) -> tuple[Job, ...]:
    """For `find_the_knee`."""
    draw = random.Random(f"knees {seed}")
    jobs = [_drawn(draw, PLAIN) for _ in range(KNEES - DENTED - CACHED - PART - 1)]
    one = _drawn(draw, PLAIN)  # which may also be all that was measured
    fewest = curve(one)[0][0]
    jobs.append({**one, "measured": [x for x in one["measured"] if nodes_of(one, x[0]) == fewest]})
    while len(jobs) < KNEES - DENTED - CACHED:
        job = _drawn(draw, PLAIN)
        if knee(job) != knee_by_full_nodes(job):
            jobs.append(job)
    while len(jobs) < KNEES - DENTED:
        job = _drawn(draw, MEMORY)
        if knee(job) != knee(job, best=True):
            jobs.append(job)
    while len(jobs) < KNEES:
        job = _drawn(draw, PLAIN, dented=True)
        if any(gain >= job["worth"] for gain in gains(job)[_steps_that_pay(job) + 1 :]):
            jobs.append(job)
    draw.shuffle(jobs)
    return tuple(jobs)


@lru_cache(maxsize=8)
def bill_cases(seed: int) -> tuple[tuple[Job, int, float], ...]:
    """What `bill` is called with: incomplete nodes, whole ones, and less than one in turn."""
    draw = random.Random(f"bills {seed}")
    cases = []
    for number in range(BILLS):
        job = _drawn(draw, PLAIN)
        full = draw.choice((2, 3, 5, 7, 16)) * job["per_node"]
        ranks = (full, full - draw.randrange(1, job["per_node"]), 1)[number % 3]
        cases.append((job, ranks, round(10 ** draw.uniform(2.5, 4.5), 1)))
    return tuple(cases)


def _drawn(draw: random.Random, kind: str, dented: bool = False) -> Job:
    while True:
        job = _job(draw, kind, dented)
        if _is_clear(job, kind):
            draw.shuffle(job["measured"])
            return job


def _job(draw: random.Random, kind: str, dented: bool) -> Job:
    per_node = draw.choice((4, 8))
    counts = sorted(
        draw.sample(NODES[2:], 4) + list(draw.choice((NODES[:2], NODES[:1], NODES[1:2])))
    )
    ranks = [count * per_node for count in counts]
    if kind not in (TIED, NEAR):
        ranks += [per_node // 4, per_node // 2] if counts[0] == 1 else []
        ranks += [full - draw.randrange(1, per_node // 2) for full in ranks[:5] if full > 4]
    alone = 10 ** draw.uniform(1.5, 3.3)
    rates = _rates(draw, kind, sorted(set(ranks)), per_node)
    if dented:  # from here on a size is slower than its neighbours: its place in the network
        rates[draw.choice(counts[1:-1]) * per_node] *= draw.uniform(0.7, 0.85)
    measured = [(size, round(alone * rate, 4)) for size, rate in rates.items()]
    job = {
        "images": draw.randrange(20, 400) * 1_000_000,
        "deadline": 0.0,
        "per_node": per_node,
        "node_hour": round(10 ** draw.uniform(0.3, 1.6), 2),
        "worth": draw.choice((0.5, 0.6, 0.7, 0.75, 0.8)),
        "measured": measured,
    }
    hours = sorted((exact_bill(job, *point)[0] for point in measured), reverse=True)
    if kind == LATE:
        job["deadline"] = round(hours[-1] * draw.uniform(0.5, 0.9), 2)
    else:
        place = 0 if kind in (TIED, NEAR) else draw.randrange(1, len(hours) - 2)
        job["deadline"] = round(hours[place] * draw.uniform(1.01, 1.1), 2)
    return job


def _rates(draw: random.Random, kind: str, sizes: Sequence[int], per_node: int) -> dict[int, float]:
    """Images/s of each size, one rank's being 1."""
    if kind == TIED:  # linear, but for less than a cent: the larger size is a little dearer
        rates = {size: size * (1 - 2e-8 * math.log2(size)) for size in sizes}
        for size in sizes[-draw.randint(1, 3) :]:
            rates[size] *= draw.uniform(0.9, 0.97)
        return rates
    if kind == NEAR:
        dearer = 10 ** draw.uniform(-6, -3)
        return {size: size * (1 - dearer * math.log2(size)) for size in sizes}
    inside, across = draw.uniform(0, 0.05), draw.uniform(0.01, 0.25)
    more, crowd = draw.uniform(0.01, 0.08), draw.uniform(0, 0.002)
    crowded = draw.random() < 0.5  # all of a node's ranks are slower than a few: one loader for all
    fits = draw.choice((3, 4, 6)) if kind == MEMORY else math.inf
    rates = {}
    for size in sizes:
        nodes = -(-size // per_node)
        slower = 1 + inside * math.log2(min(size, per_node))
        if nodes > 1:
            slower += across + more * (nodes - 1) + crowd * (nodes - 1) ** 2
        if crowded and size == nodes * per_node:
            slower *= draw.uniform(1.0, 1.4)
        if nodes >= fits:  # the images fit into the memory of so many nodes
            slower /= 2.2
        rates[size] = size / slower * draw.uniform(0.99, 1.01)
    return rates


def _is_clear(job: Job, kind: str) -> bool:
    """Whether honest arithmetic of any kind comes to one choice."""
    bills = [exact_bill(job, *point) for point in job["measured"]]
    if any(abs(hours / job["deadline"] - 1) < APART for hours, _ in bills):
        return False
    if any(abs(gain - job["worth"]) < APART for gain in gains(job)):
        return False
    rates = sorted(rate for _, rate in job["measured"])
    if any(b / a - 1 < 1e-4 for a, b in pairwise(rates)):
        return False
    if any(abs(100 * money % 1 - 0.5) < 0.1 for _, money in bills):
        return False
    money = sorted(round(one, 2) for _, one in bills)
    if kind == TIED:
        dearer = [one for one in money if one > money[0]]
        return len(money) - len(dearer) > 1 and all(one - money[0] > CENTS for one in dearer)
    if kind == NEAR and money[1] - money[0] > FEW_CENTS:
        return False
    return all(b - a > CENTS for a, b in pairwise(money))
