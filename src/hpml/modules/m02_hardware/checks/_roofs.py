"""The time that a machine needs at least, its roofs, and what usual mistakes make of them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

Call = Mapping[str, Any]  # flops, traffic, unit and machine of one call


class Bound(NamedTuple):
    """What `roofline` returns: FLOP per byte, seconds, FLOP per second, and a roof's name."""

    intensity: float
    seconds: float
    rate: float
    roof: str


def times(call: Call) -> dict[str, float]:
    """Seconds under each roof alone, by its name: Williams et al. 2009, section 3, with a roof for
    each level of the memory as in Yang et al. 2020, Hierarchical roofline analysis."""
    work, machine = call["flops"], call["machine"]
    each = {roof: amount / machine[roof] for roof, amount in call["traffic"].items()}
    return each | {call["unit"]: work / machine[call["unit"]]}


def bound(call: Call) -> Bound:
    under = times(call)
    slowest = max(under.values())
    name = next(roof for roof, seconds in under.items() if seconds == slowest)
    return Bound(call["flops"] / call["traffic"]["memory"], slowest, call["flops"] / slowest, name)


def wrong_seconds(call: Call) -> dict[str, float]:
    """Seconds by the mistake that leads to them."""
    under, machine, unit = times(call), call["machine"], call["unit"]
    other = next(name for name in ("matrix", "vector") if name != unit)
    levels = [under[level] for level in call["traffic"]]
    return {
        "min": min(under.values()),
        "sum": sum(under.values()),
        "memory_only": max(under["memory"], under[unit]),
        "compute_only": under[unit],
        "levels_only": max(levels),
        "other_unit": max(*levels, call["flops"] / machine[other]),
        "all_traffic": max(sum(call["traffic"].values()) / machine["memory"], under[unit]),
        "inverted_seconds": 1 / max(under.values()),
    }


def wrong_intensities(call: Call) -> dict[str, float]:
    traffic, flops = call["traffic"], call["flops"]
    return {
        "inverted": traffic["memory"] / flops if flops else 0.0,
        "all_levels": flops / sum(traffic.values()),
        "first_level": flops / next(iter(traffic.values())),
    }


def wrong_rates(call: Call) -> dict[str, float]:
    peak, under = call["machine"][call["unit"]], times(call)
    return {
        "peak": peak,
        "fastest_roof": call["flops"] / min(under.values()) if call["flops"] else 0.0,
        "inverted_rate": max(under.values()) / call["flops"] if call["flops"] else 0.0,
    }
