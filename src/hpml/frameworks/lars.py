"""LARS: each layer has a learning rate of its own, from the norms of its weights and gradient."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class LARS(torch.optim.Optimizer):
    """v ← μ v + γ λ (g + β w); w ← w − v, with λ = η ‖w‖ / (‖g‖ + β ‖w‖) of each parameter.

    γ is `lr`, μ `momentum`, β `weight_decay`, η `trust`. You, Gitman and Ginsburg 2017, Large batch
    training of convolutional networks (arXiv:1708.03888), equation 6 and algorithm 1. λ is 1 where
    the weights or the gradient are zero.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust: float = 0.001,
    ):
        options = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust}
        super().__init__(params, options)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Update every parameter that has a gradient."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                decayed = p.grad + group["weight_decay"] * p
                local = group["trust"] * ratio(p, p.grad, group["weight_decay"])
                state = self.state[p]
                if not state:
                    state["momentum_buffer"] = torch.zeros_like(p)
                velocity = state["momentum_buffer"]
                velocity.mul_(group["momentum"]).add_(decayed, alpha=group["lr"] * local)
                p.sub_(velocity)


def ratio(weights: Tensor, gradient: Tensor, weight_decay: float = 0.0) -> float:
    """‖w‖ / (‖g‖ + β ‖w‖); 1 where either norm is 0."""
    weight, slope = weights.norm().item(), gradient.norm().item()
    return weight / (slope + weight_decay * weight) if weight and slope else 1.0


def layer_ratios(model: nn.Module, images: Tensor, labels: Tensor) -> dict[str, float]:
    """‖w‖ / ‖g‖ of each convolution and linear layer that learns, by its name, after one batch.

    `images` [B, 3, H, W] float32, `labels` [B] int64.
    """
    model.zero_grad()
    F.cross_entropy(model(images), labels).backward()
    return {
        name.removesuffix(".weight"): ratio(p.detach(), p.grad)
        for name, p in model.named_parameters()
        if p.grad is not None and p.ndim > 1
    }
