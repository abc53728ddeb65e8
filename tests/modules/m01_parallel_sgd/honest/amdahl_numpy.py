# %%answer amdahl
# unusual: numpy everywhere, so that its scalars are returned
import numpy as np


def strong_speedup(serial, ranks):
    time = np.asarray([serial, np.divide(1 - serial, ranks)]).sum()
    return np.reciprocal(time)


def weak_speedup(serial, ranks):
    return np.dot([serial, 1 - serial], [1, ranks])


def efficiency(speedup, ranks):
    return np.float64(speedup) / np.int64(ranks)


def serial_fraction(speedup, ranks):
    # (1 - s) / p + s = 1 / S is linear in s
    a = np.array([[1 - 1 / ranks]])
    b = np.array([1 / speedup - 1 / ranks])
    return np.linalg.solve(a, b)[0]
