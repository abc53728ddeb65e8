# wrong: leaves every rank its own starting weights
# hint: no_sync
# claim: every rank starts from rank 0's weights
import torch
import torch.distributed as dist


def start(weights: torch.Tensor) -> torch.Tensor:
    return weights


def step(
    weights: torch.Tensor, x: torch.Tensor, y: torch.Tensor, learning_rate: float
) -> torch.Tensor:
    gradient = x.T @ (x @ weights - y)
    samples = torch.tensor([len(y)], dtype=gradient.dtype)
    both = torch.cat([gradient, samples])
    dist.all_reduce(both)
    return weights - learning_rate * both[:-1] / both[-1]
