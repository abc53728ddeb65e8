# %%answer find_the_knee
# unusual: numpy, whole cents as integers, lexsort; money is not rounded in the bill
import numpy as np


def nodes_of(job, ranks):
    return -(-np.asarray(ranks) // job["per_node"])


def bill(job, ranks, rate):
    seconds = job["images"] / rate
    return seconds / 3600, float(nodes_of(job, ranks) * job["node_hour"] / 3600 * seconds)


def cheapest(job):
    ranks, rates = map(np.array, zip(*job["measured"], strict=True))
    hours, money = zip(*(bill(job, n, r) for n, r in zip(ranks, rates, strict=True)), strict=True)
    hours, cents = np.array(hours), np.rint(100 * np.array(money)).astype(int)
    late = hours > job["deadline"]
    first = np.lexsort((hours, cents, late))[0]
    return None if late[first] else int(ranks[first])


def find_the_knee(job):
    ranks, rates = map(np.array, zip(*job["measured"], strict=True))
    nodes = nodes_of(job, ranks)
    counts = np.unique(nodes)
    best = np.array([np.where(nodes == count, rates, 0).argmax() for count in counts])
    added = np.diff(rates[best]) / np.diff(counts)
    too_little = added < job["worth"] * rates[best[0]] / counts[0]
    place = int(too_little.argmax()) if too_little.any() else len(best) - 1
    return int(ranks[best[place]])
