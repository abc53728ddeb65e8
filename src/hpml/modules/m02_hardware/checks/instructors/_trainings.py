"""mixed_precision's network, its gradients and its training, in float32, in mixed precision, and as
usual mistakes have it."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

from hpml.measure.clock import with_threads
from hpml.modules.m02_hardware.checks._two_precisions import HIDDEN, LEARNING_RATE, Weights

Batch = Sequence[torch.Tensor]
Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def in_bfloat16(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product of bfloat16 numbers, rounded to bfloat16."""
    return torch.matmul(a.to(torch.bfloat16), b.to(torch.bfloat16)).to(torch.float32)


def forward(
    weights: Weights,
    batch: Batch,
    product: Product = torch.matmul,
    norm: torch.dtype = torch.float32,
    logits: torch.dtype = torch.float32,
) -> torch.Tensor:
    """The mean loss over a batch (x float32 (N, FEATURES), y int64 (N,)); dtypes are those that the
    layer norm and the softmax take their inputs in."""
    x, y = batch
    first = product(x, weights["w1"]).to(norm)
    normed = functional.layer_norm(first, [HIDDEN], weights["gain"].to(norm))
    scores = product(torch.relu(normed.to(torch.float32)), weights["w2"]) + weights["bias"]
    return functional.cross_entropy(scores.to(logits), y)


@with_threads(1)  # so small that threads would only wait for each other
def with_gradients(weights: Weights, batch: Batch, **how: Any) -> tuple[torch.Tensor, Weights]:
    """The loss and its gradients, float32."""
    leaves = {name: each.detach().clone().requires_grad_() for name, each in weights.items()}
    value = forward(leaves, batch, **how)
    value.backward()
    return value.detach(), {name: leaf.grad for name, leaf in leaves.items()}


def trained(weights: Weights, batches: Sequence[Batch]) -> tuple[list[float], Weights]:
    """The loss of each step in float32, and the weights after the last."""
    weights, losses = dict(weights), []
    for batch in batches:
        value, gradients = with_gradients(weights, batch)
        losses.append(value.item())
        for name, gradient in gradients.items():
            weights[name] = weights[name] - LEARNING_RATE * gradient
    return losses, weights


def losses_in_bfloat16(weights: Weights, batches: Sequence[Batch]) -> list[float]:
    """The loss of each step where the weights are rounded to bfloat16 after each."""
    losses = []
    rounded = {name: each.to(torch.bfloat16) for name, each in weights.items()}
    for batch in batches:
        wide = {name: each.to(torch.float32) for name, each in rounded.items()}
        value, gradients = with_gradients(wide, batch, product=in_bfloat16)
        losses.append(value.item())
        for name, gradient in gradients.items():
            rounded[name] = rounded[name] - (LEARNING_RATE * gradient).to(torch.bfloat16)
    return losses
