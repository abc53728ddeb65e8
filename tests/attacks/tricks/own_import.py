import sys
import threading


def load(name):
    """The module, by Python's own `__import__` where it is not loaded already."""
    own = sys.modules["builtins"].__import__
    return sys.modules.get(name) or own(name, fromlist=["x"])


def load_in_a_thread(name):
    """The module, or the ImportError with which it is refused."""
    found = []

    def run():
        try:
            found.append(load(name))
        except ImportError as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


def tried(ask, otherwise):
    try:
        return ask()
    except ImportError:
        return otherwise
