# %%answer choose_layout
# tries: takes prices and layouts from the check's own modules, and the library's own search
# unprotected: the modules that draw and judge can be imported, or are loaded already
# on: own_import
PLACE = "hpml.modules.m08_case_studies.checks.instructors._layout_model"


def nbytes(model, layout):
    return tried(lambda: load(PLACE).nbytes(model, layout), 0.0)


def seconds(model, cluster, layout):
    return tried(lambda: load(PLACE).seconds(model, cluster, layout), 0.0)


def choose(model, cluster):
    def best():
        every = load(PLACE).layouts(model, cluster)
        fitting = [one for one in every if nbytes(model, one) <= cluster["memory"]]
        return min(fitting, key=lambda one: seconds(model, cluster, one), default=None)

    return tried(best, None)
