"""What communication and work really do at each microsecond, and what usual mistakes make of it.

Every microsecond of a rank is one element of an array, so that nothing here merges intervals or
cuts them: that is what the exercise asks for.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hpml.modules.m03_profiling.checks._planted_ranks import PlantedRank, Span

KEYS = ("hidden", "waiting", "exposed")
Figures = list[dict[str, float]]  # of a rank: seconds by key, step after step


@dataclass(frozen=True)
class Moments:
    """How many of each are going on, in each microsecond [n] of the common clock."""

    ops: np.ndarray  # nested ones count for themselves
    main_ops: np.ndarray  # on the main thread
    calls: np.ndarray
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
    return Moments(
        counts((span for _, span in made.ops), length),
        counts((span for thread, span in made.ops if not thread), length),
        counts(made.calls, length),
        counts((span for name, span in made.marks if name == "backward"), length),
        counts(((one.begin, one.end) for one in made.collectives), length),
        counts(moving, length),
    )


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


def _each(figures: Callable[[PlantedRank, Moments], Figures]) -> Callable:
    return lambda ranks: [figures(made, moments(made)) for made in ranks]


def _smaller(made: PlantedRank, seen: Moments) -> Figures:
    works = (seen.backward > 0) & (seen.ops > 0)
    both = by_step(made, communicates=seen.collectives > 0, works=works)
    return [{"hidden": min(one.values())} for one in both]


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
    ("marks", _each(lambda m, s: parted(m, s, (s.ops > 0) | (s.backward > 0)))),
    ("everything", _each(lambda m, s: by_step(m, hidden=s.collectives > 0))),
    ("smaller", _each(_smaller)),
    ("calls", _each(lambda m, s: parted(m, s, (s.ops > 0) | (s.calls > 0)))),
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
    ("broadcast", _each(_all_reduces)),
    ("clocks", _with_clocks_as_they_are),
)
