# wrong: divides by the rank's own number of samples, which may be none
# hint: nan
# claim: a rank without samples takes part and changes nothing
import torch
import torch.distributed as dist


def start(weights: torch.Tensor) -> torch.Tensor:
    dist.broadcast(weights, src=0)
    return weights


def step(
    weights: torch.Tensor, x: torch.Tensor, y: torch.Tensor, learning_rate: float
) -> torch.Tensor:
    mean = x.T @ (x @ weights - y) / len(y)
    samples = torch.tensor([len(y)], dtype=mean.dtype)
    both = torch.cat([mean * samples, samples])
    dist.all_reduce(both)
    return weights - learning_rate * both[:-1] / both[-1]
