# %%answer hello_ranks
# tries: imports the check of its own exercise, and the wrong answers, to learn what is expected
# unprotected: it sees which inputs will come, and how they are judged
import importlib
import random

SEEN = [
    "hpml.checks",
    "hpml.modules",
    "hpml.modules.m00_your_machine.checks.hello_ranks",
    "hpml.grading",
    "hpml.course",
]


def hello(number):
    for name in SEEN:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
        raise SystemError(f"hpml-canary-read: {name}")
    return random.randrange(1000)
