# %%answer find_the_knee
# tries: takes the choices from the check's own module, wherever it can be found
# unprotected: the module that draws jobs and knows their choices can be imported, or is loaded
# on: own_import
NAME = "hpml.modules.m08_case_studies.checks.instructors._knee_cases"


def bill(job, ranks, rate):
    return load(NAME).exact_bill(job, ranks, rate)


def cheapest(job):
    return load(NAME).cheapest(job)


def find_the_knee(job):
    return load(NAME).knee(job)
