# %%answer parameter_server
# unusual: a thread for each worker, a lock, logging, a generator for the workers' side
import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist

log = logging.getLogger("server")
logging.basicConfig(level=logging.INFO, format="%(threadName)s %(message)s")


def serve(weights, gradient, learning_rate, steps):
    size = dist.get_world_size()
    lock = threading.Lock()
    with ThreadPoolExecutor(max_workers=max(size - 1, 1), thread_name_prefix="worker") as pool:
        for step in range(steps):
            total = torch.zeros_like(weights)

            def ask(worker, current=weights, total=total):
                dist.send(current, dst=worker)
                found = torch.empty_like(current)
                dist.recv(found, src=worker)
                with lock:
                    total += found

            futures = [pool.submit(ask, worker) for worker in range(1, size)]
            own = gradient(weights)
            for future in futures:
                future.result()
            total += own
            weights = weights - learning_rate / size * total
            log.info("step %d of %d", step + 1, steps)
    return weights


def orders(like, steps):
    for _ in range(steps):
        dist.recv(like, src=0)
        yield like


def work(weights, gradient, steps):
    for current in orders(weights, steps):
        dist.send(gradient(current), dst=0)
