# wrong: adds the ranks' mean gradients up
# hint: sum
# claim: a step on equal shards is that of one process
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
    return weights - learning_rate * gradient
