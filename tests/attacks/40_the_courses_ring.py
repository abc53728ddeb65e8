# %%answer ring_all_reduce
# row: 40
# tries: imports the ring of the course's own library from a thread, with Python's own __import__
# unprotected: what was to be written is the course's own
# expect: 0
import sys
import threading

found = []


def load():
    own = sys.modules["builtins"].__import__
    try:
        found.append(own("hpml.allreduce", fromlist=["all_reduce"]).all_reduce)
    except ImportError as error:
        found.append(error)


thread = threading.Thread(target=load)
thread.start()
thread.join()


def ring_all_reduce(tensor):
    if isinstance(found[0], ImportError):
        raise found[0]
    found[0](tensor, "ring")
