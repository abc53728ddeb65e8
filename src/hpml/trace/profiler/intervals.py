"""Arithmetic of sets of intervals of time.

A set is float64 [k, 2], from and until in seconds, sorted and without overlap: time in it is
counted once, whatever was recorded twice. Lengths are what shares of a step are made of.
"""

import numpy as np

NOTHING = np.zeros((0, 2))


def union(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """The time in which at least one of n intervals is under way; [n] and [n] to [k, 2]."""
    kept = end > start
    start, end = start[kept], end[kept]
    order = np.argsort(start, kind="stable")
    start, latest = start[order], np.maximum.accumulate(end[order])
    if not len(start):
        return NOTHING
    first = np.concatenate([[True], start[1:] > latest[:-1]])
    last = np.concatenate([first[1:], [True]])
    return np.stack([start[first], latest[last]], axis=1)


def join(*sets: np.ndarray) -> np.ndarray:
    """The time that is in at least one of the sets."""
    both = np.concatenate([NOTHING, *sets])
    return union(both[:, 0], both[:, 1])


def intersect(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The time that is in both sets."""
    if not (len(a) and len(b)):
        return NOTHING
    # For each of a's intervals, b's from the first that ends after its start to the last that
    # starts before its end.
    first = np.searchsorted(b[:, 1], a[:, 0], side="right")
    count = np.maximum(np.searchsorted(b[:, 0], a[:, 1], side="left") - first, 0)
    of_a = np.repeat(np.arange(len(a)), count)
    of_b = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + first[of_a]
    start = np.maximum(a[of_a, 0], b[of_b, 0])
    return np.stack([start, np.minimum(a[of_a, 1], b[of_b, 1])], axis=1)


def subtract(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The time that is in `a` and not in `b`."""
    if not (len(a) and len(b)):
        return a
    edges = np.concatenate([[-np.inf], b.ravel(), [np.inf]]).reshape(-1, 2)
    return intersect(a, edges)


def clip(a: np.ndarray, start: float, end: float) -> np.ndarray:
    """The part of `a` from `start` until `end`."""
    within = a[np.searchsorted(a[:, 1], start, "right") : np.searchsorted(a[:, 0], end, "left")]
    return np.clip(within, start, end)


def length(a: np.ndarray) -> float:
    """Seconds in the set."""
    return float((a[:, 1] - a[:, 0]).sum())


def innermost(start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which of n intervals is the innermost at any time, where one may be inside another.

    Returns pieces [k, 2], sorted and without overlap, and the interval that each belongs to [k].
    Of two that overlap without one being inside the other, the later one counts.
    """
    pieces: list[tuple[float, float]] = []
    owner: list[int] = []
    open_: list[int] = []
    now = -np.inf

    def until(time: float) -> None:
        nonlocal now
        if open_ and time > now:
            pieces.append((now, time))
            owner.append(open_[-1])
        now = max(now, time)

    for i in np.lexsort((-end, start)).tolist():
        while open_ and end[open_[-1]] <= start[i]:
            until(float(end[open_[-1]]))
            open_.pop()
        until(float(start[i]))
        open_.append(i)
    while open_:
        until(float(end[open_[-1]]))
        open_.pop()
    return np.array(pieces).reshape(-1, 2), np.array(owner, int)
