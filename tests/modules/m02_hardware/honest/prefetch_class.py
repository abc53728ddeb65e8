# %%answer prefetch
# unusual: a class with a condition, whose thread holds the state and not the iterator
import threading
from collections import deque


class State:
    def __init__(self, depth):
        self.depth = depth
        self.changed = threading.Condition()
        self.ready = deque()
        self.left = False


def read(batches, state):
    last = (False, None)
    try:
        for batch in batches:
            with state.changed:
                state.changed.wait_for(lambda: state.left or len(state.ready) < state.depth)
                if state.left:
                    return
                state.ready.append((True, batch))
                state.changed.notify_all()
            del batch
    except BaseException as error:
        last = (False, error)
    with state.changed:
        state.ready.append(last)
        state.changed.notify_all()


class Prefetch:
    def __init__(self, batches, depth):
        self.state = State(depth)
        self.thread = threading.Thread(target=read, args=(batches, self.state))
        self.thread.start()

    def __iter__(self):
        return self

    def __next__(self):
        if self.thread is None:
            raise StopIteration
        with self.state.changed:
            self.state.changed.wait_for(lambda: self.state.ready)
            more, item = self.state.ready.popleft()
            self.state.changed.notify_all()
        if more:
            return item
        self.close()
        if item is None:
            raise StopIteration
        raise item

    def close(self):
        if self.thread is not None:
            with self.state.changed:
                self.state.left = True
                self.state.changed.notify_all()
            self.thread.join()
            self.thread = None

    __del__ = close


def prefetch(batches, depth):
    return Prefetch(batches, depth)
