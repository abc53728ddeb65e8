# %%answer fit_alpha_beta
# unusual: least absolute relative errors by iterated weights, sizes in megabytes, a namedtuple, and
# what lies far above the line dropped at the end
from collections import namedtuple

import numpy as np

Network = namedtuple("Network", "alpha beta")


def fit_alpha_beta(sizes, seconds, ranks):
    megabytes = np.asarray(sizes) / 1e6
    times = np.sort(np.asarray(seconds), axis=1)[:, 0]
    design = np.column_stack([np.ones_like(times), megabytes]) / times[:, None]
    weights = np.ones(len(times))
    for _ in range(40):
        found = solve(design, weights)
        weights = 1 / np.maximum(np.abs(design @ found - 1), 1e-6)
    good = 1 / (design @ found) < 1.15
    found = solve(design[good], np.ones(good.sum()))
    messages = 2 * (ranks - 1)
    return Network(float(found[0]) / messages, float(found[1]) * 1e-6 * ranks / messages)


def solve(design, weights):
    return np.linalg.solve(design.T @ (design * weights[:, None]), design.T @ weights)


def half_size(alpha, beta, ranks):
    return float(alpha) * int(ranks) / float(beta)
