"""Which network a run trains, and with which optimizer."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from hpml.models import ResidualNetwork, VisionTransformer, whitening_filters
from hpml.train.config import TrainConfig

# Biases of normalisation learn at a much higher rate, without decay (Jordan 2024, section 3.4:
# there 64 times).
BIAS_FACTOR = 32


def make_network(config: TrainConfig, images: Tensor) -> nn.Module:
    """The network of `config`, with weights from torch's random numbers, as they stand.

    The residual network's stem whitens patches of `images` [N, 3, 32, 32], normalised.
    """
    if config.model == "vit":
        return VisionTransformer.of_size(config.size)
    return ResidualNetwork(config.widths, whitening=whitening_filters(images))


def make_optimizer(network: nn.Module, config: TrainConfig, lr: float) -> torch.optim.Optimizer:
    """SGD with Nesterov momentum; for the transformer AdamW (Loshchilov and Hutter 2019).

    Each group keeps its highest learning rate under "peak". Only matrices and filters decay.
    """
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    factor = BIAS_FACTOR if config.model == "residual" else 1
    groups = []
    for parameters in _by_mesh(trained):
        weights = [parameter for parameter in parameters if parameter.ndim > 1]
        biases = [parameter for parameter in parameters if parameter.ndim == 1]
        groups += [
            {"params": weights, "peak": lr, "weight_decay": config.weight_decay},
            {"params": biases, "peak": lr * factor, "weight_decay": 0.0},
        ]
    groups = [group for group in groups if group["params"]]
    if config.model == "vit":
        return torch.optim.AdamW(groups, lr=lr, fused=True)
    # Of DTensors there is no fused step.
    fused = not any(hasattr(parameter, "device_mesh") for parameter in trained)
    return torch.optim.SGD(
        groups, lr=lr, momentum=config.momentum, nesterov=config.momentum > 0, fused=fused
    )


def _by_mesh(parameters: Iterable[nn.Parameter]) -> list[list[nn.Parameter]]:
    """Plain tensors, and DTensors by their mesh: an optimizer steps a list of one kind at once."""
    kinds: dict[Any, list[nn.Parameter]] = {}
    for parameter in parameters:
        kinds.setdefault(getattr(parameter, "device_mesh", None), []).append(parameter)
    return list(kinds.values())
