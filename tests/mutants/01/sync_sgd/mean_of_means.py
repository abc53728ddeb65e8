# wrong: averages the ranks' mean gradients, whatever the lengths of their shards
# hint: means
# claim: so is a step on shards of different lengths
import torch
import torch.distributed as dist


def start(weights: torch.Tensor) -> torch.Tensor:
    dist.broadcast(weights, src=0)
    return weights


def step(
    weights: torch.Tensor, x: torch.Tensor, y: torch.Tensor, learning_rate: float
) -> torch.Tensor:
    gradient = x.T @ (x @ weights - y) / max(len(y), 1)
    dist.all_reduce(gradient)
    return weights - learning_rate * gradient / dist.get_world_size()
