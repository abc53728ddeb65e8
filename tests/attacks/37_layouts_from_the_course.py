# %%answer choose_layout
# row: 37
# tries: takes prices and layouts from the check's own modules, and the library's own search
# unprotected: the modules that draw and judge can be imported, or are loaded already
# expect: 0
import sys

PLACE = "hpml.checks.m08_case_studies._layout_model"


def model_of_layouts():
    own = sys.modules["builtins"].__import__
    return sys.modules.get(PLACE) or own(PLACE, fromlist=["x"])


def tried(ask, otherwise):
    try:
        return ask()
    except ImportError:
        return otherwise


def nbytes(model, layout):
    return tried(lambda: model_of_layouts().nbytes(model, layout), 0.0)


def seconds(model, cluster, layout):
    return tried(lambda: model_of_layouts().seconds(model, cluster, layout), 0.0)


def choose(model, cluster):
    def best():
        every = model_of_layouts().layouts(model, cluster)
        fitting = [one for one in every if nbytes(model, one) <= cluster["memory"]]
        return min(fitting, key=lambda one: seconds(model, cluster, one), default=None)

    return tried(best, None)
