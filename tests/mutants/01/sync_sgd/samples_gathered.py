# wrong: brings all samples to every rank
# hint: samples
# claim: gradients travel, samples stay where they are
import torch
import torch.distributed as dist


def start(weights: torch.Tensor) -> torch.Tensor:
    dist.broadcast(weights, src=0)
    return weights


def step(
    weights: torch.Tensor, x: torch.Tensor, y: torch.Tensor, learning_rate: float
) -> torch.Tensor:
    shards = [None] * dist.get_world_size()
    dist.all_gather_object(shards, (x, y))
    x = torch.cat([shard[0] for shard in shards])
    y = torch.cat([shard[1] for shard in shards])
    return weights - learning_rate * (x.T @ (x @ weights - y)) / len(y)
