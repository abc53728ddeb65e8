"""How communication is spent, moment by moment, and what usual mistakes make of it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from hpml.modules.m03_profiling.checks._data_parallel import BEHIND, HOOKS
from hpml.modules.m03_profiling.checks._moments import Moments, counts, moments
from hpml.modules.m03_profiling.checks._planted_ranks import PlantedRank

KEYS = ("hidden", "waiting", "exposed")
Figures = list[dict[str, float]]  # of a rank: seconds by key, step after step


def by_step(made: PlantedRank, **microseconds: np.ndarray) -> Figures:
    """Seconds of each array within each step."""
    return [
        {key: float(array[begin:end].sum()) / 1e6 for key, array in microseconds.items()}
        for begin, end in made.steps.values()
    ]


def parted(made: PlantedRank, seen: Moments, work: np.ndarray) -> Figures:
    """Communication in its three parts, where `work` (bool [n]) hides it."""
    going_on, moving = seen.collectives > 0, seen.moving > 0
    return by_step(
        made,
        hidden=going_on & work,
        waiting=going_on & ~work & ~moving,
        exposed=moving & ~work,
    )


def truth(made: PlantedRank) -> Figures:
    """The right figures of a rank."""
    seen = moments(made)
    return parted(made, seen, seen.ops > 0)


# ---- what mistakes make of it: of all ranks, the figures of each


_moments = lru_cache(maxsize=8)(moments)  # each mistake looks at the ranks of one job


def _each(figures: Callable[[PlantedRank, Moments], Figures]) -> Callable:
    return lambda ranks: [figures(made, _moments(made)) for made in ranks]


def _smaller(made: PlantedRank, seen: Moments) -> Figures:
    works = (seen.backward > 0) & (seen.ops > 0)
    both = by_step(made, communicates=seen.collectives > 0, works=works)
    return [{"hidden": min(one.values())} for one in both]


def _marked(made: PlantedRank, seen: Moments, name: str) -> np.ndarray:
    return counts((span for mark, span in made.marks if mark == name), len(seen.ops)) > 0


def _hooks_communicate(made: PlantedRank, seen: Moments) -> Figures:
    """A mark counts as a collective whose name has `gloo:` further on."""
    going_on = (seen.collectives > 0) | _marked(made, seen, HOOKS)
    return by_step(made, hidden=going_on & (seen.ops > 0))


def _waits_compute(made: PlantedRank, seen: Moments) -> Figures:
    """A mark counts as an operator whose name has `aten::` further on."""
    return parted(made, seen, (seen.ops > 0) | _marked(made, seen, BEHIND))


def _in_one_step(made: PlantedRank, seen: Moments) -> Figures:
    """A collective counts in the step in which it began, all of it."""
    found = []
    for first, last in made.steps.values():
        begun = [(one.begin, one.end) for one in made.collectives if first <= one.begin < last]
        going_on = counts(begun, len(seen.ops)) > 0
        found.append({"hidden": float((going_on & (seen.ops > 0)).sum()) / 1e6})
    return found


def _nothing_waits(made: PlantedRank, seen: Moments) -> Figures:
    bare = (seen.collectives > 0) & (seen.ops == 0)
    return by_step(made, waiting=bare & False, exposed=bare)


def _each_waits(made: PlantedRank, seen: Moments) -> Figures:
    waiting = (seen.collectives - seen.moving) * (seen.ops == 0)
    return by_step(made, waiting=waiting, exposed=(seen.moving > 0) & (seen.ops == 0))


def _starts(made: PlantedRank, seen: Moments) -> Figures:
    """An op of c10d counts as a collective of its own, whose data move."""
    moving, idle = (seen.moving > 0) | (seen.calls > 0), seen.ops == 0
    waiting = (seen.collectives > 0) & ~moving & idle
    return by_step(made, waiting=waiting, exposed=moving & idle)


def _all_reduces(made: PlantedRank, seen: Moments) -> Figures:
    """No other collective is seen."""
    some = replace(made, collectives=[one for one in made.collectives if one.name == "all_reduce"])
    return truth(some)


def _hidden_too(made: PlantedRank, seen: Moments) -> Figures:
    moving = seen.moving > 0
    return by_step(made, waiting=(seen.collectives > 0) & ~moving, exposed=moving)


def _with_clocks_as_they_are(ranks: Sequence[PlantedRank]) -> list[Figures]:
    joins = [
        max(made.collectives[k].begin + made.offset for made in ranks)
        for k in range(len(ranks[0].collectives))
    ]
    found = []
    for made in ranks:
        seen = moments(made, [round(join - made.offset) for join in joins])
        found.append(parted(made, seen, seen.ops > 0))
    return found


Mistake = Callable[[Sequence[PlantedRank]], list[Figures]]
# (the hint's key, what somebody who makes this mistake finds)
HIDDEN_MISTAKES: tuple[tuple[str, Mistake], ...] = (
    ("names", _each(lambda m, s: by_step(m, hidden=s.ops < 0))),
    ("marks", _each(lambda m, s: parted(m, s, (s.ops > 0) | (s.backward > 0)))),
    ("everything", _each(lambda m, s: by_step(m, hidden=s.collectives > 0))),
    ("smaller", _each(_smaller)),
    ("beginning", _each(_hooks_communicate)),
    ("beginning", _each(_waits_compute)),
    ("calls", _each(lambda m, s: parted(m, s, (s.ops > 0) | (s.calls > 0)))),
    ("calls", _each(lambda m, s: parted(m, s, (s.ops > 0) | (s.calls > 0) & (s.nodes == 0)))),
    ("nodes", _each(lambda m, s: parted(m, s, (s.ops > 0) | (s.nodes > 0)))),
    ("nodes", _each(lambda m, s: parted(m, s, (s.ops > 0) | (s.nodes > 0) | (s.calls > 0)))),
    ("threads", _each(lambda m, s: parted(m, s, s.main_ops > 0))),
    ("nested", _each(lambda m, s: by_step(m, hidden=(s.collectives > 0) * s.ops))),
    ("union", _each(lambda m, s: by_step(m, hidden=s.collectives * (s.ops > 0)))),
    ("union", _each(lambda m, s: by_step(m, hidden=s.collectives * s.ops))),
    ("steps", _each(_in_one_step)),
)
WAITING_MISTAKES: tuple[tuple[str, Mistake], ...] = (
    ("nobody", _each(_nothing_waits)),
    ("apart", _each(_hidden_too)),
    ("moves", _each(_each_waits)),
    ("starts", _each(_starts)),
    ("broadcast", _each(_all_reduces)),
    ("clocks", _with_clocks_as_they_are),
)
