# %%answer async_sgd
# unusual: a thread receives into a queue, the main thread applies and answers
import queue
import threading

import torch
import torch.distributed as dist


def receive(like, how_many, inbox):
    for _ in range(how_many):
        gradient = torch.empty_like(like)
        inbox.put((dist.recv(gradient), gradient))


def serve(weights, learning_rate, steps, staleness):
    ranks = list(range(1, dist.get_world_size()))
    if not ranks:
        return weights
    inbox = queue.SimpleQueue()
    total = steps * len(ranks)
    thread = threading.Thread(target=receive, args=(weights, total, inbox), daemon=True)
    thread.start()
    done, idle = {rank: 0 for rank in ranks}, set(ranks)

    def hand_out():
        behind = min(done.values())
        for rank in sorted(idle):
            if done[rank] < steps and done[rank] - behind <= staleness:
                dist.send(weights, rank)
                idle.discard(rank)

    hand_out()
    for _ in range(total):
        rank, gradient = inbox.get()
        weights = weights - learning_rate * gradient
        done[rank] += 1
        idle.add(rank)
        hand_out()
    thread.join()
    return weights


def work(weights, gradient, steps):
    buffer = torch.empty_like(weights)
    for _ in range(steps):
        dist.recv(buffer, 0)
        dist.send(gradient(buffer), 0)
