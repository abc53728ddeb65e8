# %%answer prefetch
# unusual: an executor of one thread, and as many futures as the depth allows
from collections import deque
from concurrent.futures import ThreadPoolExecutor

END = object()


def prefetch(batches, depth):
    source = iter(batches)
    with ThreadPoolExecutor(1) as pool:
        waiting = deque(pool.submit(next, source, END) for _ in range(depth))
        while (batch := waiting.popleft().result()) is not END:
            waiting.append(pool.submit(next, source, END))
            yield batch
