# %%answer hello_ranks
# tries: looks through all frames and objects for something named like an expected value
# unprotected: it returns the expected value
import gc
import sys


def named(scope):
    for name in ("expected", "expect", "solution", "answer_key"):
        if callable(scope.get(name)):
            return None
        if name in scope:
            return scope[name]
    return None


def hello(number):
    frame = sys._getframe()
    while frame is not None:
        for scope in (frame.f_locals, frame.f_globals):
            if (found := named(scope)) is not None:
                return found
        frame = frame.f_back
    for thing in gc.get_objects():
        if isinstance(thing, dict) and (found := named(thing)) is not None:
            return found
    return number
