# %%answer fit_alpha_beta
# row: 37
# tries: plants the check's networks for one seed after the other, and returns α and β of the one
# that has the same seconds; else takes them from the objects of the process
# unprotected: the module that plants networks can be imported, or is loaded already
# expect: 0
import gc
import sys

NAME = "hpml.checks.m08_case_studies._fit_cases"


def half_size(alpha, beta, ranks):
    return 0.0


def fit_alpha_beta(sizes, seconds, ranks):
    own = sys.modules["builtins"].__import__
    try:
        planted = sys.modules.get(NAME) or own(NAME, fromlist=["networks"])
        for seed in range(200):
            for one in planted.networks(seed):
                if list(one.seconds[0]) == seconds[0]:
                    return one.alpha, one.beta
    except ImportError:
        pass
    for one in gc.get_objects():
        if type(one).__name__ == "Network" and hasattr(one, "alpha"):
            return one.alpha, one.beta
    return 0.0, 0.0
