# %%answer fit_alpha_beta
# unusual: float32; a class for a line; a recursion that drops the size which is farthest off the
# line, until none is far; a generator, and a cache of what a ring of so many ranks sends
from functools import cache

import numpy as np


@cache
def sent(ranks):
    """Messages of one rank, and the part of the tensor that all of them are together."""
    return np.float32(2 * (ranks - 1)), np.float32(2 * (ranks - 1) / ranks)


class Line:
    def __init__(self, nbytes, seconds):
        self.largest = nbytes.max()
        rows = np.stack([1 / seconds, nbytes / self.largest / seconds], axis=1)
        scale = np.linalg.norm(rows, axis=0)
        ones = np.ones(len(rows), dtype=np.float32)
        self.parts = np.linalg.lstsq(rows / scale, ones, rcond=None)[0] / scale
        self.errors = np.abs(rows @ self.parts - 1)

    def __iter__(self):
        yield self.parts[0]
        yield self.parts[1] / self.largest


def through(nbytes, seconds):
    line = Line(nbytes, seconds)
    worst = line.errors.argmax()
    if line.errors[worst] <= 4.5 * np.median(line.errors) + 1e-4 or len(nbytes) < 30:
        return line
    return through(np.delete(nbytes, worst), np.delete(seconds, worst))


def fit_alpha_beta(sizes, seconds, ranks):
    nbytes = np.fromiter(sizes, dtype=np.float32)
    quickest = np.fromiter((min(times) for times in seconds), dtype=np.float32)
    return tuple(value / by for value, by in zip(through(nbytes, quickest), sent(ranks)))


def half_size(alpha, beta, ranks):
    return np.float64(alpha) / beta * ranks
