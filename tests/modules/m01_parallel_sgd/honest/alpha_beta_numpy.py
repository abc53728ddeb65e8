# %%answer alpha_beta
# unusual: numpy arrays and scalars; each cost is a scalar product
import numpy as np


def cost(messages, sent, added, *abg):
    return np.dot(np.array([messages, sent, added], dtype=np.float64), np.array(abg))


def naive(nbytes, ranks, alpha, beta, gamma):
    n = np.int64(ranks) - 1
    return cost(2 * n, 2 * n * np.float64(nbytes), n * np.float64(nbytes), alpha, beta, gamma)


def tree(nbytes, ranks, alpha, beta, gamma):
    up = np.ceil(np.log2(ranks))
    return cost(2 * up, 2 * up * nbytes, up * nbytes, alpha, beta, gamma)


def ring(nbytes, ranks, alpha, beta, gamma):
    part = np.true_divide(nbytes, ranks)
    return cost(2 * (ranks - 1), 2 * (ranks - 1) * part, (ranks - 1) * part, alpha, beta, gamma)


def halving_doubling(nbytes, ranks, alpha, beta, gamma):
    halves = nbytes * np.power(0.5, np.arange(1, np.log2(ranks) + 1))
    return cost(2 * len(halves), 2 * halves.sum(), halves.sum(), alpha, beta, gamma)
