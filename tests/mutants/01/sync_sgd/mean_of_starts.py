# wrong: averages the starting weights
# hint: start_mean
# claim: every rank starts from rank 0's weights
import torch
import torch.distributed as dist


def start(weights: torch.Tensor) -> torch.Tensor:
    dist.all_reduce(weights)
    return weights / dist.get_world_size()


def step(
    weights: torch.Tensor, x: torch.Tensor, y: torch.Tensor, learning_rate: float
) -> torch.Tensor:
    gradient = x.T @ (x @ weights - y)
    samples = torch.tensor([len(y)], dtype=gradient.dtype)
    both = torch.cat([gradient, samples])
    dist.all_reduce(both)
    return weights - learning_rate * both[:-1] / both[-1]
