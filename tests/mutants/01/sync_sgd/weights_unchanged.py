# wrong: computes the step and returns the weights as they were
# hint: unchanged
# claim: a step on equal shards is that of one process
import torch
import torch.distributed as dist


def start(weights: torch.Tensor) -> torch.Tensor:
    dist.broadcast(weights, src=0)
    return weights


def step(
    weights: torch.Tensor, x: torch.Tensor, y: torch.Tensor, learning_rate: float
) -> torch.Tensor:
    gradient = x.T @ (x @ weights - y)
    samples = torch.tensor([len(y)], dtype=gradient.dtype)
    both = torch.cat([gradient, samples])
    dist.all_reduce(both)
    new = weights - learning_rate * both[:-1] / both[-1]  # noqa: F841
    return weights
