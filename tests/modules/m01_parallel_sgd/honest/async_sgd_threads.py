# %%answer async_sgd
# unusual: a thread of the server for each worker, and a condition that they wait for
import threading

import torch
import torch.distributed as dist


def serve(weights, learning_rate, steps, staleness):
    workers = range(1, dist.get_world_size())
    made, turn = dict.fromkeys(workers, 0), threading.Condition()

    def attend(worker):
        nonlocal weights
        received = torch.empty_like(weights)
        for step in range(steps):
            with turn:
                turn.wait_for(lambda: step - staleness <= min(made.values()))
                now = weights
            dist.send(now, dst=worker)
            dist.recv(received, src=worker)
            with turn:
                weights = weights - learning_rate * received
                made[worker] += 1
                turn.notify_all()

    threads = [threading.Thread(target=attend, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return weights


def work(weights, gradient, steps):
    for _ in range(steps):
        dist.recv(weights, src=0)
        dist.send(gradient(weights), dst=0)
