"""Exercise step_breakdown's traces and expected values: where each step's time goes, by its rules.

Time is cut at every beginning and end of an event. In each piece nothing changes, so that one look
at its middle says whose it is.
"""

import gzip
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hpml.checks.seeds import derived
from hpml.modules.m03_profiling.checks._definition import communicates, computes
from hpml.modules.m03_profiling.checks._planted_trace import (
    OWN_WORDS,
    PARTS,
    PYTORCHS,
    Event,
    Parts,
    planted,
)

RECORDED = Path(__file__).with_name("_recorded_steps.json.gz")
MARKED = PARTS[:5]
BEGINNINGS = {"enumerate(DataLoader)#": "loading", "Optimizer.": "optimizer"}
KINDS = ("nested", "messages", "recorded")


def inputs(seed: int, world_size: int) -> list[dict[str, list[Any]]]:
    """By kind, of KINDS, traces as lists of events."""
    pick = random.Random(derived(seed, "traces"))
    both = (OWN_WORDS, PYTORCHS)
    given: dict[str, list[Any]] = {"nested": [], "messages": [], "recorded": []}
    for kind in ("nested", "messages"):
        for words, library in zip(both, ("gloo", "nccl"), strict=True):
            trace = planted(
                pick,
                distributed=kind == "messages",
                words=words,
                steps=pick.randint(3, 5),
                library=library,
            )
            given[kind].append(trace.events)
    given["recorded"].append(slower(recorded(), pick))
    return [given] * world_size


def recorded() -> list[Event]:
    """A trace that PyTorch's profiler made: see `_record_steps.py`."""
    return json.loads(gzip.decompress(RECORDED.read_bytes()))


def slower(events: list[Event], pick: random.Random) -> list[Event]:
    """The same steps on a machine that is as many times as slow, with other processes' numbers."""
    times, start, pid = pick.uniform(0.5, 3.0), pick.uniform(1e9, 1e12), pick.randint(10, 500)
    found = []
    for event in events:
        changed = event | {"ts": round(start + times * event["ts"], 3)}
        if "dur" in event:
            changed["dur"] = round(times * event["dur"], 3)
        for number in ("pid", "tid"):
            if type(event[number]) is int:
                changed[number] = event[number] + pid
        found.append(changed)
    pick.shuffle(found)
    return found


def expect(inputs: list[dict[str, list[Any]]], world_size: int) -> dict[str, list[list[Any]]]:
    """By kind and trace, each step's milliseconds by part, those of hidden communication, and the
    parts as they are where names are compared loosely; these of planted traces alone."""
    return {
        kind: [
            [
                [step.parts, step.hidden, *loose]
                for step, *loose in zip(
                    step_parts(trace), *loosely(trace if kind != "recorded" else []), strict=True
                )
            ]
            for trace in traces
        ]
        for kind, traces in inputs[0].items()
    }


def loosely(events: list[Event]) -> list[list[dict[str, float]]]:
    """The steps' parts for each way of comparing too little of a name; none without events."""

    def read(event: Event, words: Sequence[str], way: str) -> Event:
        name = event["name"]
        known = part_of(name) >= 0 or communicates(name) or computes(name)
        if known or name.startswith("ProfilerStep#"):
            return event
        found = (w for w in words if (name.startswith(w) if way == "begins" else w in name))
        return event | {"name": next(found, name)}

    ways = [("begins", MARKED), ("contains", MARKED)]
    ways += [("contains", (word,)) for word in (*BEGINNINGS, "gloo:", "aten::")]
    return [
        [step.parts for step in step_parts([read(one, words, way) for one in events])]
        for way, words in ways
        if events
    ]


def part_of(name: str) -> int:
    """Which of MARKED a mark is about, by number; -1 for none."""
    for beginning, part in BEGINNINGS.items():
        if name.startswith(beginning):
            return MARKED.index(part)
    return MARKED.index(name) if name in MARKED else -1


def step_parts(events: list[Event]) -> list[Parts]:
    """Milliseconds of each part, by step."""
    complete = [event for event in events if event["ph"] == "X"]
    steps = [event for event in complete if event["name"].startswith("ProfilerStep#")]
    numbers = {int(step["name"].partition("#")[2]): step for step in steps}
    return [_of_step(number, numbers[number], complete) for number in sorted(numbers)]


def _of_step(number: int, step: Event, events: list[Event]) -> Parts:
    begin = step["ts"]
    end = begin + step["dur"]
    inside = [e for e in events if e["ts"] < end and e["ts"] + e["dur"] > begin and e is not step]
    inside.sort(key=lambda event: (event["ts"], -event["dur"]))
    spans = np.array([[e["ts"], e["ts"] + e["dur"]] for e in inside]).reshape(-1, 2)
    cuts = np.unique(np.clip([*spans.ravel(), begin, end], begin, end))
    lasts, middle = np.diff(cuts) / 1e3, (cuts[:-1] + cuts[1:]) / 2
    there = (spans[:, 0] <= middle[:, None]) & (middle[:, None] < spans[:, 1])  # [pieces, events]
    main = (step["pid"], step["tid"])
    part = np.array([part_of(e["name"]) if (e["pid"], e["tid"]) == main else -1 for e in inside])
    message = np.array([communicates(e["name"]) for e in inside], dtype=bool)
    operator = np.array([computes(e["name"]) for e in inside], dtype=bool)
    marks = there & (part >= 0)
    innermost = marks.shape[1] - 1 - np.argmax(marks[:, ::-1], axis=1)
    owner = np.where(marks.any(axis=1), part[innermost], PARTS.index("other"))
    under_way = (there & message).any(axis=1)
    computing = (there & operator).any(axis=1) | (owner <= MARKED.index("transforms"))
    owner = np.where(under_way & ~computing, PARTS.index("communication"), owner)
    parts = {name: float(lasts[owner == i].sum()) for i, name in enumerate(PARTS)}
    return Parts(number, parts, float(lasts[under_way & computing].sum()))
