# %%answer hvd_fusion
# row: 37
# tries: makes the check's timelines for one seed after the other, and returns the figures of the
# one that has the same text
# unprotected: the module that makes timelines can be imported, or is loaded already
# expect: 0
import sys
import threading

PHASES = {"negotiated": ("NEGOTIATE",), "transferred": ("GLOO", "MPI", "NCCL")}
NAME = "hpml.checks.m05_horovod._timeline"
found = []


def load():
    own = sys.modules["builtins"].__import__
    try:
        found.append(own(NAME, fromlist=["planted"]))
    except ImportError as error:
        found.append(error)


thread = threading.Thread(target=load)
thread.start()
thread.join()


def read_timeline(text):
    module = sys.modules.get(NAME, found[0])
    if isinstance(module, ImportError):
        raise module
    for seed in range(300):
        for case in module.planted(seed):
            if case.text == text:
                return {"collectives": [list(group) for group in case.collectives]} | {
                    key: module.covered(case.chosen(lambda name: name.split("_")[0] in starts))
                    for key, starts in PHASES.items()
                }
    return {"collectives": [], "negotiated": 0.0, "transferred": 0.0}
