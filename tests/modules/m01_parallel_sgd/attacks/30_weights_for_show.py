# %%answer parameter_server
# tries: sends zeros to the server and back, as many bytes as are asked for, and adds up the
# gradients by the group's own backend
# unprotected: messages form a star and their bytes are right, and nobody asks what is in them
# expect: 6
import torch
import torch.distributed as dist


def add_up(tensor):
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    backend.allreduce([tensor]).wait()
    return tensor


def serve(weights, gradient, learning_rate, steps):
    ranks = dist.get_world_size()
    nothing = torch.zeros_like(weights)
    for other in range(1, ranks):
        dist.send(weights, dst=other)
    for _ in range(steps):
        for other in range(1, ranks):
            dist.send(nothing, dst=other)
        total = gradient(weights)
        for other in range(1, ranks):
            dist.recv(nothing, src=other)
        weights = weights - learning_rate * (add_up(total) if ranks > 1 else total) / ranks
    return weights


def work(weights, gradient, steps):
    ranks, nothing = dist.get_world_size(), torch.zeros_like(weights)
    dist.recv(weights, src=0)
    for _ in range(steps):
        dist.recv(torch.empty_like(weights), src=0)
        total = gradient(weights)
        dist.send(nothing, dst=0)
        weights = weights - 0.125 * add_up(total) / ranks
