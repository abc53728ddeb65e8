"""The plays of binding_plan: nodes, how many cores ranks can have of them and where; and masks."""

import random
from collections.abc import Sequence
from typing import Any

from hpml.modules.m02_hardware.checks.instructors._nodes_to_bind import (
    KINDS,
    Case,
    Row,
    case,
    scattered,
)


def inputs(seed: int, world_size: int) -> list[dict[str, Any]]:
    """Nodes and numbers of ranks, and plans of other nodes to write as options."""
    draw = random.Random(seed)
    cases = [case(draw, *kind) for kind in KINDS]
    draw.shuffle(cases)
    return [{"cases": cases, "plans": [scattered(draw) for _ in range(3)]}]


def expect(inputs: list[dict[str, Any]], world_size: int) -> dict[str, Any]:
    """By case: how many cores each rank can have, which cores are `free`, and the field of `cpus`
    that a rank's cores agree in. By plan: its masks, and (hint, masks of somebody mistaken)."""
    (given,) = inputs
    return {
        "cases": [
            {"most": most_cores(asked), "free": [*free_cores(asked)], "level": domains(asked)[0][0]}
            for asked in given["cases"]
        ],
        "plans": [
            {"masks": masks(asked["plan"]), "mistakes": mistaken(**asked)}
            for asked in given["plans"]
        ],
    }


def domains(asked: Case) -> list[tuple[str, int]]:
    """The field of `cpus` and its value that each rank's cores have to agree in."""
    ranks = asked["ranks"]
    if asked["gpus"]:
        return [("numa", at) for at in asked["gpus"]]
    for level in ("numa", "socket"):
        names = sorted({row[level] for row in asked["cpus"]})
        if ranks % len(names) == 0:
            return [(level, names[rank * len(names) // ranks]) for rank in range(ranks)]
    return [("machine", 0)] * ranks


def free_cores(asked: Case) -> dict[int, Row]:
    """A row of each core of which no CPU is reserved."""
    taken = {row["core"] for row in asked["cpus"] if row["cpu"] in asked["reserved"]}
    return {row["core"]: row for row in asked["cpus"] if row["core"] not in taken}


def most_cores(asked: Case) -> int:
    """How many cores each rank can have, all equally many."""
    wanted = domains(asked)
    rows = free_cores(asked).values()
    return min(
        sum(row.get(level, 0) == name for row in rows) // wanted.count((level, name))
        for level, name in set(wanted)
    )


def masks(plan: Sequence[Sequence[int]]) -> list[int]:
    """Of each rank: bit k is CPU k."""
    return [sum(1 << cpu for cpu in mine) for mine in plan]


def mistaken(plan: Sequence[Sequence[int]], cpus: int) -> list[tuple[str, list[int]]]:
    """Ranks from the last to the first; bits from the left, with or without the CPUs beyond the
    last one that is used."""
    widths = (cpus, max(map(max, plan)) + 1)
    from_the_left = [[[width - 1 - cpu for cpu in mine] for mine in plan] for width in widths]
    return [("order", masks(plan)[::-1]), *(("bits", masks(each)) for each in from_the_left)]
