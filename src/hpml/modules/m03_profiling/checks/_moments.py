"""What a rank did in each microsecond: its operators, collectives and marks as arrays.

Every microsecond is one element of an array, so that nothing here merges intervals or cuts them:
that is what the exercises ask for.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from hpml.modules.m03_profiling.checks._definition import computes
from hpml.modules.m03_profiling.checks._planted_ranks import PHASES, PlantedRank, Span


@dataclass(frozen=True)
class Moments:
    """How many of each are going on, in each microsecond [n] of the common clock."""

    ops: np.ndarray  # that compute; nested ones count for themselves
    main_ops: np.ndarray  # on the main thread
    calls: np.ndarray  # ops of c10d
    nodes: np.ndarray  # all other ops: autograd's nodes, which may wait
    backward: np.ndarray
    collectives: np.ndarray
    moving: np.ndarray  # collectives that all ranks have joined


def counts(spans: Iterable[Span], length: int) -> np.ndarray:
    """How many of the spans cover each microsecond: int64 [length]."""
    change = np.zeros(length + 1, dtype=np.int64)
    for begin, end in spans:
        change[min(max(begin, 0), length)] += 1
        change[min(max(end, 0), length)] -= 1
    return change.cumsum()[:length]


def moments(made: PlantedRank, joined: Sequence[int] | None = None) -> Moments:
    """A rank's moments. `joined`: when all ranks had joined each collective, if not as planted."""
    last = [end for _, end in made.steps.values()] + [one.end for one in made.collectives]
    length = max(last)
    joins = joined or [one.joined for one in made.collectives]
    moving = [
        (min(max(join, one.begin), one.end), one.end)
        for join, one in zip(joins, made.collectives, strict=True)
    ]

    def running(wanted: Callable[[str, int], bool]) -> np.ndarray:
        return counts((span for name, thread, span in made.ops if wanted(name, thread)), length)

    return Moments(
        running(lambda name, _: computes(name)),
        running(lambda name, thread: computes(name) and not thread),
        running(lambda name, _: name.startswith("c10d::")),
        running(lambda name, _: not computes(name) and not name.startswith("c10d::")),
        counts((span for name, span in made.marks if name == "backward"), length),
        counts(((one.begin, one.end) for one in made.collectives), length),
        counts(moving, length),
    )


def own_work(made: PlantedRank) -> dict[tuple[int, str], int]:
    """By step and phase, the microseconds of its marks in which the rank does not only communicate.

    A phase without a mark in a step has 0.
    """
    seen = moments(made)
    own = (seen.collectives == 0) | (seen.ops > 0)
    found = {(step, phase): 0 for step in made.steps for phase in PHASES}
    for step, (first, last) in made.steps.items():
        for phase, (begin, end) in made.marks:
            if phase in PHASES and first <= begin < last:
                found[step, phase] += int(own[begin:end].sum())
    return found
