# %%answer alpha_beta
# tries: has a table of the counts for the numbers of ranks that were always asked for
# unprotected: bytes and costs are fresh, and the numbers of ranks are the same in each run
# expect: 2
STEPS = {1: 0, 2: 1, 3: 2, 4: 2, 5: 3, 8: 3, 12: 4, 16: 4, 100: 7, 128: 7, 1024: 10}


def naive(nbytes, ranks, alpha, beta, gamma):
    others = {p: p - 1 for p in STEPS}.get(ranks, 0)
    return 2 * others * (alpha + nbytes * beta) + others * nbytes * gamma


def tree(nbytes, ranks, alpha, beta, gamma):
    steps = STEPS.get(ranks, 0)
    return 2 * steps * (alpha + nbytes * beta) + steps * nbytes * gamma


def ring(nbytes, ranks, alpha, beta, gamma):
    steps, part = {p: p - 1 for p in STEPS}.get(ranks, 0), nbytes / ranks
    return 2 * steps * (alpha + part * beta) + steps * part * gamma


def halving_doubling(nbytes, ranks, alpha, beta, gamma):
    steps = STEPS.get(ranks, 0)
    share = (ranks - 1) / ranks * nbytes if steps else 0
    return 2 * (steps * alpha + share * beta) + share * gamma
