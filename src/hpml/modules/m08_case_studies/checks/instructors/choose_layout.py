"""The plays of choose_layout: models and clusters, what is right on them, and usual mistakes."""

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpml.checks.kits.drawn import BY_CHOICE
from hpml.modules.m08_case_studies.checks._layout_legal import KEYS, Table
from hpml.modules.m08_case_studies.checks._layout_picture import CLUSTER, MODEL
from hpml.modules.m08_case_studies.checks.instructors._layout_cases import (
    NARROW,
    Found,
    all_found,
    cases,
    drawn_cluster,
    drawn_model,
    fastest,
)
from hpml.modules.m08_case_studies.checks.instructors._layout_model import (
    DATA_MISTAKES,
    MEMORY_MISTAKES,
    SLOT_MISTAKES,
    layouts,
    nbytes,
    seconds,
)

SEEN = 1e-2  # each mistake changes some call by so much
SAMPLED = 4  # layouts of each model in the calls
RARE = ("gathered:two", "level:block", "level:rest")  # mistakes that few layouts show

Call = list[Any]  # the arguments: model, layout, or model, cluster, layout


def inputs(seed: int, world_size: int) -> list[dict[str, Any]]:
    """For the only rank: the arguments of each function's calls, by claim."""
    draw = random.Random(seed + 1)
    return [
        {
            "memory": [[model, one] for model, _, one in _calls(draw, _memory, MEMORY_MISTAKES)],
            "slots": _calls(draw, _alone, SLOT_MISTAKES),
            "data": _calls(draw, _shared, DATA_MISTAKES),
            "choices": [[case.model, case.cluster] for case in cases(seed)],
        }
    ]


def _memory(model: Any, cluster: Any, layout: Any, wrong: str = "") -> float:
    return nbytes(model, layout, wrong)


def _alone(model: Any, cluster: Any, layout: Any, wrong: str = "") -> float:
    """The seconds of layouts of one copy."""
    return seconds(model, cluster, layout, wrong) if layout["data"] == 1 else math.nan


def _shared(model: Any, cluster: Any, layout: Any, wrong: str = "") -> float:
    """The seconds of layouts of several copies."""
    return seconds(model, cluster, layout, wrong) if layout["data"] > 1 else math.nan


def _calls(draw: random.Random, price: Callable[..., float], mistakes: Sequence[str]) -> list[Call]:
    """Layouts of some models, in which each of the mistakes changes something."""
    calls: list[Call] = []
    unseen = set(mistakes)
    models = 0
    while unseen or models < 5:
        model, cluster = drawn_model(draw), drawn_cluster(draw)
        if unseen and unseen <= {*RARE}:  # a block of 3 does not divide a node of 8
            model |= {"layers": 6, "heads": 24, "width": 24 * 64, "sequences": 48}
            cluster |= {"per_node": 8, "ranks": 24}
        elif not models % 3:  # a block of 4 fits into a node of 6, but does not divide it
            model |= {"heads": 24, "width": 24 * 64}
            cluster |= {"per_node": 6, "ranks": 24}
        legal = [
            one for one in layouts(model, cluster) if not math.isnan(price(model, cluster, one))
        ]
        fresh = [[model, cluster, one] for one in draw.sample(legal, min(SAMPLED, len(legal)))]
        fresh += [
            [model, cluster, one]
            for wrong in sorted(unseen & {*RARE})
            for one in legal
            if abs(price(model, cluster, one, wrong) / price(model, cluster, one) - 1) > SEEN
        ][:1]
        shown = {
            wrong
            for wrong in unseen
            for call in fresh
            if abs(price(*call, wrong) / price(*call) - 1) > SEEN
        }
        if shown or models < 5:
            unseen -= shown
            calls += fresh
            models += 1
    return calls


def expect(inputs: list[dict[str, Any]], world_size: int) -> dict[str, Any]:
    """By claim: what is right, and (hint, what somebody with this mistake returns).

    Of a choice both are its seconds, or None for no choice; the tables price any other.
    """
    (given,) = inputs
    found = [all_found(*call) for call in given["choices"]]
    clusters = [cluster for _, cluster in given["choices"]]
    pairs = [*zip(found, clusters, strict=True)]
    return {
        "memory": _values(given["memory"], nbytes, MEMORY_MISTAKES),
        "slots": _values(given["slots"], seconds, SLOT_MISTAKES),
        "data": _values(given["data"], seconds, DATA_MISTAKES),
        "choices": {
            "right": [fastest(some, cluster["memory"]) for some, cluster in pairs],
            "mistakes": [
                (_hint(name), [fastest(left(*pair), pair[1]["memory"]) for pair in pairs])
                for name, left in NARROW.items()
            ],
            BY_CHOICE: [_table(some) for some in found],
        },
    }


def _values(
    calls: Sequence[Call], price: Callable[..., float], mistakes: Sequence[str]
) -> dict[str, Any]:
    return {
        "right": [price(*call) for call in calls],
        "mistakes": [(_hint(name), [price(*call, name) for call in calls]) for name in mistakes],
    }


def _hint(mistake: str) -> str:
    return mistake.split(":")[0]


def _table(found: Sequence[Found]) -> Table:
    """In float32, which takes less room, and decides the same: see `_layout_cases.APART`."""
    return {
        tuple(one.layout[key] for key in KEYS): (
            float(np.float32(one.nbytes)),
            float(np.float32(one.seconds)),
        )
        for one in found
    }


def pictured() -> Table:
    """Of the model that is shown."""
    return _table(all_found(MODEL, CLUSTER))
