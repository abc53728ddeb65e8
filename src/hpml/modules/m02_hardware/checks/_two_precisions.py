"""Exercise mixed_precision's network and gradients, in float32, in mixed precision, and as usual
mistakes have it.

The network is x @ w1, a layer norm with a gain, ReLU, @ w2 plus a bias, and the mean cross-entropy.
Its weights are as large, and its learning rate as small, as after a long training: most steps
change a weight by less than half of the distance between two bfloat16 numbers.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

FEATURES, HIDDEN, CLASSES, BATCH = 48, 256, 8, 128
LEARNING_RATE = 2.0**-7
STEPS = 30

Weights = dict[str, torch.Tensor]
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


def with_gradients(weights: Weights, batch: Batch, **how: Any) -> tuple[torch.Tensor, Weights]:
    """The loss and its gradients, float32."""
    leaves = {name: each.detach().clone().requires_grad_() for name, each in weights.items()}
    value = forward(leaves, batch, **how)
    value.backward()
    return value.detach(), {name: leaf.grad for name, leaf in leaves.items()}


def draw_weights(draw: torch.Generator) -> Weights:
    """None of them small: a bfloat16 number of their size is far from its neighbours."""

    def away_from_zero(*shape: int) -> torch.Tensor:
        sign = torch.randint(0, 2, shape, generator=draw) * 2 - 1
        return sign * (0.25 + 0.25 * torch.rand(shape, generator=draw))

    return {
        "w1": away_from_zero(FEATURES, HIDDEN),
        "gain": 1.5 + 0.25 * torch.rand(HIDDEN, generator=draw),
        "w2": away_from_zero(HIDDEN, CLASSES),
        "bias": torch.zeros(CLASSES),
    }


def draw_batches(draw: torch.Generator, number: int) -> list[list[torch.Tensor]]:
    """Batches with the labels of one linear rule."""
    rule = torch.randn(FEATURES, CLASSES, generator=draw)
    rule /= rule.norm(dim=0)
    xs = [torch.randn(BATCH, FEATURES, generator=draw) for _ in range(number)]
    return [[x, torch.argmax(x @ rule, 1)] for x in xs]


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


def apart(got: Weights, expected: Weights) -> float:
    """The largest distance of a gradient from the expected one, as a share of that one's norm; NaN
    where one has a NaN (Python's `max` may leave it out)."""
    shares = [(got[name] - each).norm() / each.norm() for name, each in expected.items()]
    return torch.stack(shares).max().item()


def off_grid(tensor: torch.Tensor) -> float:
    """How far the elements are from a bfloat16 number: 0 of bfloat16 numbers, up to 0.5 spacings
    and on average 0.25 of any others."""
    values = tensor[tensor != 0].double()
    if not values.numel():
        return 0.0
    spacings = values / 2.0 ** (torch.floor(torch.log2(values.abs())) - 7)
    return (spacings - spacings.round()).abs().mean().item()
