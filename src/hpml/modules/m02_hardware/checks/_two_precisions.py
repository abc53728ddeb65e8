"""What mixed_precision's network is given, and how far gradients are from others.

The network is x @ w1, a layer norm with a gain, ReLU, @ w2 plus a bias, and the mean cross-entropy.
Its weights are as large, and its learning rate as small, as after a long training: most steps
change a weight by less than half of the distance between two bfloat16 numbers.
"""

from typing import Any

import torch

FEATURES, HIDDEN, CLASSES, BATCH = 48, 256, 8, 128
LEARNING_RATE = 2.0**-7
STEPS = 30
SAMPLED = 3  # batches for which loss and gradients are compared
CLOSE = 1e-3  # of a gradient's norm: right answers differ by 3e-4, the nearest mistake by 3e-3
SUMS = 256  # of each gradient

Weights = dict[str, torch.Tensor]


def given(play: dict[str, Any]) -> dict[str, Any]:
    """Weights, and batches for gradients and then for steps, drawn from `play`'s seed."""
    draw = torch.Generator().manual_seed(play["seed"])
    return {"weights": draw_weights(draw), "batches": draw_batches(draw, SAMPLED + STEPS)}


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
    # In float64: no label hangs on the order of a machine's sums
    return [[x, torch.argmax(x.double() @ rule.double(), 1)] for x in xs]


def sums(gradients: Weights, play: dict[str, Any]) -> dict[str, list[float]]:
    """Of each gradient SUMS sums of its elements with random signs: two gradients are as far apart
    as their sums, within some per cent (Charikar et al. 2002, Finding frequent items in data
    streams), and these are small to keep."""
    draw, found = torch.Generator().manual_seed(play["seed"] + 1), {}
    for name, gradient in sorted(gradients.items()):
        flat = gradient.detach().double().flatten()
        signs = 2 * torch.randint(0, 2, flat.shape, generator=draw) - 1
        at = torch.randperm(len(flat), generator=draw) % SUMS
        total = torch.zeros(SUMS, dtype=torch.float64).index_add_(0, at, signs * flat)
        found[name] = total.float().tolist()
    return found


def apart(got: dict[str, list[float]], expected: dict[str, list[float]]) -> float:
    """The largest distance of a gradient from the expected one, as a share of that one's norm, by
    their sums; NaN where one has a NaN (Python's `max` may leave it out)."""
    pairs = [(torch.tensor(got[name]), torch.tensor(each)) for name, each in expected.items()]
    return torch.stack([(mine - each).norm() / each.norm() for mine, each in pairs]).max().item()


def off_grid(tensor: torch.Tensor) -> float:
    """How far the elements are from a bfloat16 number: 0 of bfloat16 numbers, up to 0.5 spacings
    and on average 0.25 of any others."""
    values = tensor[tensor != 0].double()
    if not values.numel():
        return 0.0
    spacings = values / 2.0 ** (torch.floor(torch.log2(values.abs())) - 7)
    return (spacings - spacings.round()).abs().mean().item()
