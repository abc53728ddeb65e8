# %%answer async_sgd
# tries: keeps the staleness bound for half a second; then those who are held back go on
# unprotected: a straggler that is held for less never shows it
# expect: 11
# on: solution
import queue
import threading

PATIENCE = 0.5  # seconds


def receive(like, count, inbox):
    for _ in range(count):
        gradient = torch.empty_like(like)
        inbox.put((dist.recv(gradient), gradient))


def serve(weights, learning_rate, steps, staleness):
    workers = range(1, dist.get_world_size())
    applied, inbox = dict.fromkeys(workers, 0), queue.SimpleQueue()
    count = steps * len(workers)
    threading.Thread(target=receive, args=(weights, count, inbox), daemon=True).start()
    waiting = set(workers)
    while sum(applied.values()) < count:
        for worker in sorted(waiting):
            if applied[worker] - staleness <= min(applied.values()):
                dist.send(weights, worker)
                waiting.remove(worker)
        try:
            worker, gradient = inbox.get(timeout=PATIENCE if waiting else None)
        except queue.Empty:
            for worker in waiting:
                dist.send(weights, worker)
            waiting.clear()
            continue
        weights = weights - learning_rate * gradient
        applied[worker] += 1
        if applied[worker] < steps:
            waiting.add(worker)
    return weights
