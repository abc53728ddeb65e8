# %%answer find_the_knee
# row: 37
# tries: takes the choices from the check's own module, wherever it can be found
# unprotected: the module that draws jobs and knows their choices can be imported, or is loaded
# expect: 0
import sys

NAME = "hpml.checks.m08_case_studies._knee_cases"


def load():
    own = sys.modules["builtins"].__import__
    return sys.modules.get(NAME) or own(NAME, fromlist=["x"])


def bill(job, ranks, rate):
    return load().exact_bill(job, ranks, rate)


def cheapest(job):
    return load().cheapest(job)


def find_the_knee(job):
    return load().knee(job)
