"""A data-parallel step as buckets on a network, and what usual mistakes make of it.

Backward takes two thirds of a step's compute, and makes gradients from the last layer to the first
(Li et al. 2020, PyTorch Distributed: Experiences on Accelerating Data Parallel Training, section
3.2.3). A ring all-reduce takes 2(p-1)α + 2(p-1)/p·nβ (Patarasuk and Yuan 2009, Bandwidth optimal
all-reduce algorithms for clusters of workstations, section 3).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Job = Mapping[str, Any]  # layers, batch, alone, bucket_bytes, network: as the exercise gives it
Ring = Callable[[float, int, Mapping[str, Any]], float]  # (nbytes, ranks, network) -> seconds


def level(ranks: int, network: Mapping[str, Any]) -> tuple[float, float]:
    """α in seconds and the rate in bit/s of the slowest link that a ring of all ranks uses."""
    return network["inside" if ranks <= network["per_node"] else "across"]


def ring_seconds(nbytes: float, ranks: int, network: Mapping[str, Any]) -> float:
    """2(p-1)α + 2(p-1)/p·nβ, with β = 8 / rate."""
    alpha, rate = level(ranks, network)
    return 2 * (ranks - 1) * (alpha + nbytes / ranks * 8 / rate)


def _ring(messages: Callable[[int], float], nbytes: Callable[[int], float], bits: int = 8) -> Ring:
    def seconds(size: float, ranks: int, network: Mapping[str, Any]) -> float:
        alpha, rate = level(ranks, network)
        return messages(ranks) * alpha + nbytes(ranks) * size * bits / rate

    return seconds


def _always(name: str) -> Ring:
    return lambda n, p, network: ring_seconds(n, p, {**network, "inside": network[name]})


def _only_full(network: Mapping[str, Any], ranks: int) -> Mapping[str, Any]:
    """As if the links inside counted only where `ranks` are all of a node's."""
    return network if ranks >= network["per_node"] else {**network, "inside": network["across"]}


# (the hint's key, what somebody who makes this mistake returns)
RING_MISTAKES: tuple[tuple[str, Ring], ...] = (
    ("bits", _ring(lambda p: 2 * (p - 1), lambda p: 2 * (p - 1) / p, 1)),
    ("bits", _ring(lambda p: 2 * (p - 1), lambda p: 2 * (p - 1) / p, 64)),
    ("alpha", _ring(lambda p: 0, lambda p: 2 * (p - 1) / p)),
    ("alpha", _ring(lambda p: 1, lambda p: 2 * (p - 1) / p)),
    ("alpha", _ring(lambda p: 2, lambda p: 2 * (p - 1) / p)),
    ("factor", _ring(lambda p: 2 * (p - 1), lambda p: 1)),
    ("factor", _ring(lambda p: 2 * (p - 1), lambda p: 2)),
    ("factor", _ring(lambda p: 2 * (p - 1), lambda p: 2 * (p - 1))),
    ("half", _ring(lambda p: p - 1, lambda p: (p - 1) / p)),
    ("half", _ring(lambda p: 2 * (p - 1), lambda p: (p - 1) / p)),
    ("level", lambda n, p, net: ring_seconds(n, p, {**net, "per_node": net["per_node"] - 1})),
    ("level", lambda n, p, net: ring_seconds(n, p, {**net, "across": net["inside"]})),
    ("level", _always("across")),
    ("level", lambda n, p, net: ring_seconds(n, p, {**net, "per_node": 2 * net["per_node"] - 1})),
    ("level", lambda n, p, net: ring_seconds(n, p, _only_full(net, p))),
)


@dataclass(frozen=True)
class Rules:
    """How a step is put together. As they stand they are right; other values are mistakes."""

    last_first: bool = True  # else buckets fill in forward order
    forward: float = 1 / 3  # of a step's compute; backward is the rest
    by: str = "flop"  # what backward's seconds are shared by: "flop", "bytes", "even"
    # A bucket closes "after" the layer that fills it; "beyond": not if that fills it exactly;
    # "before" it; "late": without it, when backward has passed it
    closes: str = "after"
    remainder: bool = True  # whether what does not fill a bucket leaves too
    empties: bool = False  # whether it does so if it is nothing
    # "queue"; "apart": each bucket has a network of its own; "last": and the step waits for the
    # last one alone; "end": when backward is over;
    # "perfect": communication beside all of the compute; "backward": beside all of backward
    leaves: str = "queue"
    shared: str = "across"  # the levels of the network that get only a share of their rate
    share: Callable[[float], float] = lambda share: share  # the factor of the rate
    doublings: Callable[[int], float] = math.log2  # the waits of a step


RIGHT = Rules()


def step_seconds(
    job: Job, ranks: int, share: float = 1.0, wait: float = 0.0, rules: Rules = RIGHT
) -> float:
    """Seconds of one step of `ranks` ranks."""
    compute = job["batch"] / job["alone"]
    network = dict(job["network"])
    for name in rules.shared.split():
        alpha, rate = network[name]
        network[name] = (alpha, rate * rules.share(share))
    leaving = buckets(ready(job["layers"], compute, rules), job["bucket_bytes"], rules)
    sends = [ring_seconds(nbytes, ranks, network) for _, nbytes in leaving]
    waits = wait * rules.doublings(ranks)
    if rules.leaves == "end":
        return compute + sum(sends) + waits
    if rules.leaves == "perfect":
        return max(compute, sum(sends)) + waits
    if rules.leaves == "backward":
        return compute * rules.forward + max(compute * (1 - rules.forward), sum(sends)) + waits
    free = 0.0
    for (moment, _), seconds in zip(leaving, sends, strict=True):
        if rules.leaves == "last":
            free = 0.0
        begins = moment if rules.leaves == "apart" else max(moment, free)
        free = max(free, begins + seconds)
    return max(compute, free) + waits


def ready(
    layers: Sequence[tuple[float, float]], compute: float, rules: Rules
) -> list[tuple[float, float]]:
    """(moment, bytes) of each layer's gradients, in the order in which they are ready."""
    ordered = list(reversed(layers)) if rules.last_first else list(layers)
    parts = {"flop": [f for f, _ in ordered], "bytes": [b for _, b in ordered]}
    weights = parts.get(rules.by, [1.0] * len(ordered))
    now, found = compute * rules.forward, []
    for weight, (_, nbytes) in zip(weights, ordered, strict=True):
        now += compute * (1 - rules.forward) * weight / sum(weights)
        found.append((now, nbytes))
    return found


def buckets(
    gradients: Sequence[tuple[float, float]], limit: float, rules: Rules
) -> list[tuple[float, float]]:
    """(moment at which its last gradient is ready, bytes) of each bucket, in order."""
    found: list[tuple[float, float]] = []
    size, moment = 0.0, 0.0
    for now, nbytes in gradients:
        if rules.closes in ("before", "late") and size and size + nbytes > limit:
            found.append((now if rules.closes == "late" else moment, size))
            size = 0.0
        size, moment = size + nbytes, now
        if rules.closes in ("after", "beyond") and size >= limit + (rules.closes == "beyond"):
            found.append((moment, size))
            size = 0.0
    if rules.remainder and (size or rules.empties):
        found.append((moment, size))
    return found


def images_per_s(
    job: Job, ranks: int, share: float = 1.0, wait: float = 0.0, rules: Rules = RIGHT
) -> float:
    """Images per second of all ranks together; each has `job["batch"]` images in a step."""
    images = ranks * job["batch"]
    return images / step_seconds(job, ranks, share, wait, rules)


Curve = Callable[[Job, int, float, float], float]


def _with(**changed: Any) -> Curve:
    rules = Rules(**changed)
    return lambda job, ranks, share, wait: images_per_s(job, ranks, share, wait, rules)


def _for_a_global_batch(job: Job, ranks: int, share: float, wait: float) -> float:
    """As if `batch` were that of all ranks together."""
    return images_per_s({**job, "batch": job["batch"] / ranks}, ranks, share, wait)


CURVE_MISTAKES: tuple[tuple[str, Curve], ...] = (
    ("linear", lambda job, ranks, *_: ranks * job["alone"]),
    ("one_rank", lambda job, ranks, *c: images_per_s(job, ranks, *c) / ranks),
    ("efficiency", lambda job, ranks, *c: images_per_s(job, ranks, *c) / ranks / job["alone"]),
    ("seconds", step_seconds),
    ("global", _for_a_global_batch),
    ("global", lambda job, ranks, *c: _for_a_global_batch(job, ranks, *c) / ranks),
    ("perfect", _with(leaves="perfect")),
    ("perfect", _with(leaves="backward")),
    ("added", _with(leaves="end")),
    ("added", lambda job, *c: images_per_s({**job, "bucket_bytes": math.inf}, *c)),
    ("remainder", _with(remainder=False)),
    ("order", _with(last_first=False)),
    ("queue", _with(leaves="apart")),
    ("queue", _with(leaves="last")),
    ("thirds", _with(forward=0.0)),
    ("thirds", _with(forward=0.5)),
    ("thirds", _with(forward=2 / 3)),
    ("by_flop", _with(by="even")),
    ("by_flop", _with(by="bytes")),
    ("full", _with(closes="beyond")),
    ("empty", _with(empties=True)),
    ("closes", _with(closes="before")),
    ("closes", _with(closes="late")),
)
CONSTANT_MISTAKES: tuple[tuple[str, Curve], ...] = (
    ("no_share", lambda job, ranks, share, wait: images_per_s(job, ranks, 1.0, wait)),
    ("share", _with(share=lambda share: 1 / share)),
    ("share", _with(share=lambda share: 1 - share)),
    ("inside", _with(shared="inside across")),
    ("no_wait", lambda job, ranks, share, wait: images_per_s(job, ranks, share, 0.0)),
    ("wait", _with(doublings=lambda ranks: ranks)),
    ("wait", _with(doublings=lambda ranks: ranks - 1)),
    ("wait", _with(doublings=lambda ranks: 1)),
    ("wait", _with(doublings=math.log)),
    ("wait", _with(doublings=math.log10)),
)
