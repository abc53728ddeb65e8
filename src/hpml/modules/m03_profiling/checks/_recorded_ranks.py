"""The jobs that `_record_ranks.py` has recorded, with ranks and clocks exchanged for each seed."""

import gzip
import json
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from hpml.modules.m03_profiling.checks._definition import communicates
from hpml.modules.m03_profiling.checks._planted_ranks import Collective, Event, PlantedRank, Span

RECORDING = Path(__file__).with_name("_recorded_ranks.json.gz")
LATE = 2  # the rank that was late in the recorded jobs
# job: (the phase in which it was late, since which step)
JOBS = {"loading": ("loading", 6), "backward": ("backward", 3), "nobody": ("", 0)}


@cache
def recorded() -> dict[str, list[list[Event]]]:
    """By job: each rank's events, on the clock that the recorded ranks shared."""
    return json.loads(gzip.decompress(RECORDING.read_bytes()))


def job(name: str, seed: int) -> tuple[list[PlantedRank], list[int]]:
    """The job's ranks in a new order, each with a clock of its own; and the order.

    `order[r]` is the recorded rank that is rank r now.
    """
    draw = random.Random(f"{seed} {name}")
    traces = recorded()[name]
    order = draw.sample(range(len(traces)), len(traces))
    zero = min(event["ts"] for events in traces for event in events if event["ph"] == "X")
    ranks = [_rank(rank, traces[old], zero, draw) for rank, old in enumerate(order)]
    joins = [
        max(one.begin for one in same)
        for same in zip(*(made.collectives for made in ranks), strict=True)
    ]
    for made in ranks:
        made.collectives = [
            replace(one, joined=join) for one, join in zip(made.collectives, joins, strict=True)
        ]
    return ranks, order


def _rank(rank: int, events: Sequence[Event], zero: float, draw: random.Random) -> PlantedRank:
    """A recorded rank as the simulator has it, without when the others joined."""
    made = PlantedRank(rank, offset=draw.randint(10**9, 10**12) + draw.randint(0, 9) / 10)
    main = next(e["tid"] for e in events if e["name"].startswith("ProfilerStep#"))
    numbers: dict[Any, int] = {main: 0}
    for event in events:
        new = event | {"ts": round(event["ts"] - zero + made.offset, 1)}
        made.events.append(new)
        if event["ph"] != "X" or event["cat"] == "Trace":
            continue
        thread = numbers.setdefault(event["tid"], len(numbers))
        begin = event["ts"] - zero
        _add(made, event, thread, (round(begin), round(begin + event["dur"])))
    made.steps = dict(sorted(made.steps.items()))
    made.collectives.sort(key=lambda one: one.begin)
    draw.shuffle(made.events)
    return made


def _add(made: PlantedRank, event: Event, thread: int, span: Span) -> None:
    name = event["name"]
    if name.startswith("ProfilerStep#"):
        made.steps[int(name.partition("#")[2])] = span
    elif communicates(name):
        kind = name.partition(":")[2]
        made.collectives.append(Collective(span[0], span[0], span[1], thread, kind))
    elif event["cat"] == "user_annotation":
        made.marks.append((name, span))
    else:
        made.ops.append((name, thread, span))
