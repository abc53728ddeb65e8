# %%answer sync_sgd
# unusual: all_gather_into_tensor and a sum of one's own instead of all_reduce
import torch
import torch.distributed as dist


def start(weights):
    world = dist.get_world_size()
    rows = weights.new_zeros(world * weights.numel())
    dist.all_gather_into_tensor(rows, weights)
    return rows.view(world, -1)[0].clone()


def step(weights, x, y, learning_rate):
    mine = torch.hstack([x.t().mv(x.mv(weights) - y), weights.new_full((1,), x.size(0))])
    rows = mine.new_empty(dist.get_world_size() * mine.numel())
    dist.all_gather_into_tensor(rows, mine)
    *gradient, samples = rows.view(-1, mine.numel()).sum(dim=0).unbind()
    return weights - learning_rate * torch.stack(gradient) / samples
