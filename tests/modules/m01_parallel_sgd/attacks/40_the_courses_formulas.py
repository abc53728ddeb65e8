# %%answer alpha_beta
# tries: loads the formulas of the course's own library from their file
# unprotected: what was to be written is the course's own
# on: from_file
formulas = of_the_course("predict", "collectives.py")


def by(algorithm):
    def seconds(nbytes, ranks, alpha, beta, gamma):
        cost = formulas.Cost(alpha, beta, gamma)
        return formulas.all_reduce_seconds(algorithm, nbytes, ranks, cost)

    return seconds


naive, tree, ring = by("naive"), by("tree"), by("ring")
halving_doubling = by("halving-doubling")
