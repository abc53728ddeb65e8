# %%answer parameter_server
# unusual: isend and irecv for all workers at once; in-place updates; `weights` of a worker reused
import torch
import torch.distributed as dist


def serve(weights, gradient, learning_rate, steps):
    weights = weights.clone()
    workers = range(1, dist.get_world_size())
    inbox = torch.empty(len(workers), *weights.shape, dtype=weights.dtype)
    for _ in range(steps):
        sends = [dist.isend(weights, worker) for worker in workers]
        receives = [dist.irecv(inbox[worker - 1], worker) for worker in workers]
        own = gradient(weights.clone())
        for request in sends + receives:
            request.wait()
        mean = torch.cat([own[None], inbox]).mean(dim=0)
        weights.add_(mean, alpha=-learning_rate)
    return weights


def work(weights, gradient, steps):
    for _ in range(steps):
        dist.irecv(weights, 0).wait()
        found = gradient(weights)
        dist.isend(found, 0).wait()
