# %%answer alpha_beta
# row: 40
# tries: loads the formulas of the course's own library from their file
# unprotected: what was to be written is the course's own
# expect: 0
import importlib.util
import os
import sys

place = os.path.join(sys.modules["hpml"].__path__[0], "predict", "collectives.py")
spec = importlib.util.spec_from_file_location("formulas", place)
sys.modules["formulas"] = formulas = importlib.util.module_from_spec(spec)
spec.loader.exec_module(formulas)


def by(algorithm):
    def seconds(nbytes, ranks, alpha, beta, gamma):
        cost = formulas.Cost(alpha, beta, gamma)
        return formulas.all_reduce_seconds(algorithm, nbytes, ranks, cost)

    return seconds


naive, tree, ring = by("naive"), by("tree"), by("ring")
halving_doubling = by("halving-doubling")
