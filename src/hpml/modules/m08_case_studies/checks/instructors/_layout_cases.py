"""Models and clusters of choose_layout, each drawn until one thing that people forget decides."""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from hpml.modules.m08_case_studies.checks.instructors._layout_model import layouts, nbytes, seconds

APART = 1e-4  # of seconds or bytes: closer than that, float32 cannot tell two layouts apart
WORTH = 1.01  # a wrong choice takes so many times the seconds of the best one, or more


@dataclass(frozen=True)
class Found:
    """A legal layout with what it takes."""

    layout: dict[str, int]
    nbytes: float
    seconds: float


@dataclass(frozen=True)
class Case:
    """A model on a cluster, where `decides` names what is needed to choose well; see DECISIVE."""

    decides: str
    model: dict[str, int]
    cluster: dict[str, Any]


def fastest(found: Iterable[Found], memory: float) -> float | None:
    """Seconds of the fastest layout that fits; None: none fits."""
    return min((one.seconds for one in found if one.nbytes <= memory), default=None)


# How people narrow the search: what remains of all legal layouts. The names are hints' keys.
NARROW: dict[str, Callable[[Sequence[Found], dict[str, Any]], list[Found]]] = {
    "sharding": lambda found, cluster: [one for one in found if one.layout["stage"] == 0],
    "all_stages:2": lambda found, cluster: [one for one in found if one.layout["stage"] != 2],
    "all_stages:3": lambda found, cluster: [one for one in found if one.layout["stage"] != 3],
    "one_micro": lambda found, cluster: [one for one in found if one.layout["micro_batches"] == 1],
    "most_micro": lambda found, cluster: _most_micro(found),
    "powers": lambda found, cluster: [
        one
        for one in found
        if all(size & (size - 1) == 0 for key, size in one.layout.items() if key != "stage")
    ],
    "node": lambda found, cluster: [
        one for one in found if cluster["per_node"] % one.layout["tensor"] == 0
    ],
    "no_pipeline": lambda found, cluster: [one for one in found if one.layout["pipeline"] == 1],
    "no_tensor": lambda found, cluster: [one for one in found if one.layout["tensor"] == 1],
    "greedy:data": lambda found, cluster: _most(found, cluster["memory"], "data"),
    "greedy:tensor": lambda found, cluster: (
        _most(NARROW["node"](found, cluster), cluster["memory"], "tensor")
        or _most(found, cluster["memory"], "tensor")
    ),
    "least_memory": lambda found, cluster: [min(found, key=lambda one: one.nbytes)],
}
# What is forgotten about a layout's price: names of `_layout_model`
PRICES = (
    "activations", "bubble:none", "level:inside", "level:larger", "all_reduces:half", "free",
    "hidden:all", "two_levels:data", "gathers", "waited:never", "sends:one_way",
    "once:gathers", "once:gradients",
)  # fmt: skip
# What a layout has to divide: names of `_layout_legal.illegal`
DIVIDED = ("layers", "heads", "batch")
# What decides where memory is scarce
SCARCE = (
    "memory", "activations", "sharding", "waited:never", "batch", "all_stages:3", "once:gradients",
)  # fmt: skip
DECISIVE = ("memory", *PRICES, *DIVIDED, *NARROW)


def _most(found: Sequence[Found], memory: float, key: str) -> list[Found]:
    """The layouts that fit and have the largest `key`: as if one split by that dimension first."""
    fitting = [one for one in found if one.nbytes <= memory]
    most = max((one.layout[key] for one in fitting), default=0)
    return [one for one in fitting if one.layout[key] == most]


def _most_micro(found: Sequence[Found]) -> list[Found]:
    """Of each data, tensor and pipeline only the layouts with most micro-batches."""
    most: dict[tuple[int, ...], int] = {}
    for one in found:
        split = _split(one)
        most[split] = max(most.get(split, 0), one.layout["micro_batches"])
    return [one for one in found if one.layout["micro_batches"] == most[_split(one)]]


def _split(one: Found) -> tuple[int, ...]:
    return tuple(one.layout[key] for key in ("data", "tensor", "pipeline"))


def all_found(model: dict[str, int], cluster: dict[str, Any]) -> list[Found]:
    return [
        Found(one, nbytes(model, one), seconds(model, cluster, one))
        for one in layouts(model, cluster)
    ]


def decided(
    name: str, found: Sequence[Found], model: dict[str, int], cluster: dict[str, Any]
) -> bool:
    """Whether an answer that forgets `name` chooses what does not fit, or is visibly slower."""
    memory = cluster["memory"]
    best = fastest(found, memory)
    if best is None:
        return False
    if name in NARROW:
        left = fastest(NARROW[name](found, cluster), memory)
        return left is None or left >= WORTH * best
    if name in DIVIDED:
        more = [one for one in layouts(model, cluster, name) if nbytes(model, one) <= memory]
        return best >= WORTH * min(seconds(model, cluster, one) for one in more)
    if name == "memory":
        chosen = min(found, key=lambda one: one.seconds)
    elif name == "activations":
        light = [one for one in found if nbytes(model, one.layout, name) <= memory]
        chosen = min(light, key=lambda one: one.seconds)
    else:
        fitting = [one for one in found if one.nbytes <= memory]
        chosen = min(fitting, key=lambda one: seconds(model, cluster, one.layout, name))
    return chosen.nbytes > memory or chosen.seconds >= WORTH * best


def clear(found: Sequence[Found], memory: float) -> bool:
    """Whether float32 sees what fits, and which is fastest."""
    if any(abs(one.nbytes / memory - 1) < APART for one in found):
        return False
    best = fastest(found, memory)
    return best is None or not any(
        1e-9 < one.seconds / best - 1 < APART for one in found if one.nbytes <= memory
    )


def drawn_model(draw: random.Random, *, sequences: Sequence[int] = ()) -> dict[str, int]:
    heads = draw.choice((8, 12, 16, 20, 24, 32))
    return {
        "layers": draw.choice((6, 8, 12, 18, 20, 24, 36, 40)),
        "heads": heads,
        "width": heads * draw.choice((64, 96, 128)),
        "sequences": draw.choice(sequences or (8, 12, 16, 24, 32, 36, 48)),
        "tokens": draw.choice((512, 1024, 2048)),
    }


def drawn_cluster(draw: random.Random) -> dict[str, Any]:
    """Whole nodes; rates in byte/s. `memory` is drawn by the model: see `drawn`."""
    per_node = draw.choice((2, 4, 4, 6, 8))
    nodes = draw.choice([n for n in (1, 2, 3, 4, 6) if per_node * n <= 24])
    across = round(10 ** draw.uniform(8.8, 10.4), -6)
    return {
        "ranks": per_node * nodes,
        "per_node": per_node,
        "memory": 0.0,
        "flops": round(10 ** draw.uniform(13.3, 14.6), -11),
        "inside": round(across * 10 ** draw.uniform(0.5, 1.6), -6),
        "across": across,
    }


def _tried(draw: random.Random, name: str) -> tuple[dict[str, int], dict[str, Any]] | None:
    """One draw, or None where it is ambiguous or `name` decides nothing."""
    model, cluster = drawn_model(draw), drawn_cluster(draw)
    if name == "node":  # more tensor ranks than a node has, as there is nothing else to split
        model |= {"heads": 24, "width": 24 * 128, "sequences": 1, "layers": draw.choice((5, 7, 11))}
        cluster |= {"per_node": 4, "ranks": draw.choice((8, 12))}
    if name == "level:larger":
        model |= {"heads": 24, "width": 24 * draw.choice((64, 128))}
        cluster |= {"per_node": 6, "ranks": draw.choice((12, 24))}
    if name == "level:inside":
        cluster |= {"per_node": draw.choice((2, 4))}
        cluster |= {"ranks": cluster["per_node"] * draw.choice((4, 6))}
    if name == "heads":  # 8 tensor ranks would be best, if only they divided the heads
        model |= {"heads": 20, "width": 20 * 128, "sequences": draw.choice((2, 4))}
        cluster |= {"per_node": 8, "ranks": draw.choice((8, 16)), "inside": 3e11}
    if name == "batch":  # few numbers divide it
        model |= {"sequences": draw.choice((22, 26, 34, 38, 46))}
        cluster |= {"ranks": 2 * cluster["per_node"]}
    found = all_found(model, cluster)
    if not found:
        return None
    least, most = min(one.nbytes for one in found), max(one.nbytes for one in found)
    wanted = min(found, key=lambda one: one.seconds).nbytes  # what the fastest of all takes
    scarce = name in SCARCE or draw.random() < 0.4
    top = wanted if scarce else most
    low = 1.05 * least if name != "sharding" else least + 0.1 * (top - least)
    memory = draw.uniform(low, max(low, top if scarce else 1.2 * top))
    cluster["memory"] = float(f"{memory:.3g}")
    good = clear(found, cluster["memory"]) and decided(name, found, model, cluster)
    return (model, cluster) if good else None


def drawn(draw: random.Random, name: str) -> Case:
    """A case in which `name` decides."""
    while (tried := _tried(draw, name)) is None:
        pass
    return Case(name, *tried)


def too_large(draw: random.Random) -> Case:
    """A case in which no layout fits."""
    model, cluster = drawn_model(draw), drawn_cluster(draw)
    while not (found := all_found(model, cluster)):
        model, cluster = drawn_model(draw), drawn_cluster(draw)
    least = min(one.nbytes for one in found)
    cluster["memory"] = float(f"{draw.uniform(0.6, 0.95) * least:.3g}")
    return Case("nothing", model, cluster)


@lru_cache(maxsize=8)
def cases(seed: int) -> tuple[Case, ...]:
    """One case for each of DECISIVE, and two that do not fit, in no order."""
    draw = random.Random(seed)
    made = [drawn(draw, name) for name in DECISIVE] + [too_large(draw) for _ in range(2)]
    draw.shuffle(made)
    return tuple(made)
