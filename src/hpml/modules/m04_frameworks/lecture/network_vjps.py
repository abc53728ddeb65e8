"""The course's network, differentiated without torch.autograd: each operation with its own vjp.

The vjp of an operation (vector-Jacobian product) turns the derivative of the loss by its output
into those by its inputs: ḡ ↦ ḡ J (Baydin et al. 2018, Automatic Differentiation in Machine
Learning: a Survey, JMLR 18(153), on the reverse mode). The ones here are written down by hand. None
of PyTorch's derivatives is called; where an operation only moves numbers, its vjp moves them back
(`fold`, `max_unpool2d`, `scatter_add`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import pi, sqrt
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from hpml.models import ResidualNetwork

# What runs, and its vjp: (derivative by the output, output, *inputs) -> derivatives by the inputs
Primitive = tuple[Callable[..., Tensor], Callable[..., tuple[Any, ...]]]
EXACT = 1e-9  # float64 has 16 digits; sums of thousands of products in another order keep over 9


def convolution(padding: int) -> Primitive:
    """Images [B, C, H, W] and filters [F, C, K, K] to [B, F, H', W'], stride 1.

    After `unfold` it is a matrix product, and so is its derivative.
    """

    def forward(x: Tensor, w: Tensor) -> Tensor:
        side = x.shape[-1] + 2 * padding - w.shape[-1] + 1
        columns = F.unfold(x, w.shape[-1], padding=padding)  # [B, C K K, H' W']
        return (w.flatten(1) @ columns).unflatten(2, (side, side))

    def vjp(g: Tensor, out: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        columns = F.unfold(x, w.shape[-1], padding=padding)
        g = g.flatten(2)
        by_w = (g @ columns.mT).sum(0).view_as(w)
        by_columns = w.flatten(1).T @ g
        return F.fold(by_columns, x.shape[2:], w.shape[-1], padding=padding), by_w

    return forward, vjp


def gelu_vjp(g: Tensor, out: Tensor, x: Tensor) -> tuple[Tensor]:
    """x Φ(x) has the derivative Φ(x) + x φ(x): Hendrycks and Gimpel 2016, arXiv:1606.08415."""
    cumulative = (1 + torch.erf(x / sqrt(2))) / 2
    density = torch.exp(-x * x / 2) / sqrt(2 * pi)
    return (g * (cumulative + x * density),)


def pool_vjp(g: Tensor, out: Tensor, x: Tensor) -> tuple[Tensor]:
    """The derivative goes where the maximum of each 2×2 window was."""
    _, indices = F.max_pool2d(x, 2, return_indices=True)
    return (F.max_unpool2d(g, indices, [2, 2], output_size=[*x.shape]),)


def largest_vjp(g: Tensor, out: Tensor, x: Tensor) -> tuple[Tensor]:
    """[B, C, H, W]: the derivative [B, C] goes where the channel's maximum was."""
    flat = x.flatten(2)
    moved = torch.zeros_like(flat).scatter_add(2, flat.argmax(2, keepdim=True), g[..., None])
    return (moved.view_as(x),)


def normalise(eps: float) -> Primitive:
    """Batch normalisation of [B, C, H, W] by the batch's own mean and variance, plus a bias [C].

    Ioffe and Szegedy 2015, Batch Normalization, arXiv:1502.03167, section 3; no scale.
    """

    def standard(x: Tensor) -> tuple[Tensor, Tensor]:
        mean = x.mean((0, 2, 3), keepdim=True)
        variance = (x - mean).square().mean((0, 2, 3), keepdim=True)
        scale = (variance + eps).rsqrt()
        return (x - mean) * scale, scale

    def forward(x: Tensor, bias: Tensor) -> Tensor:
        return standard(x)[0] + bias[:, None, None]

    def vjp(g: Tensor, out: Tensor, x: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        y, scale = standard(x)
        mean, along = (part.mean((0, 2, 3), keepdim=True) for part in (g, g * y))
        return (g - mean - y * along) * scale, g.sum((0, 2, 3))

    return forward, vjp


def cross_entropy(labels: Tensor) -> Primitive:
    """Logits [B, classes] to the mean of -log softmax at `labels` [B]."""

    def forward(x: Tensor) -> Tensor:
        rows = torch.arange(len(labels))
        return -(x - x.logsumexp(1, keepdim=True))[rows, labels].mean()

    def vjp(g: float | Tensor, out: Tensor, x: Tensor) -> tuple[Tensor]:
        wanted = F.one_hot(labels, x.shape[1]).to(x.dtype)
        return (g * (torch.softmax(x, 1) - wanted) / len(labels),)

    return forward, vjp


def primitives(labels: Tensor, eps: float = 1e-5) -> dict[str, Primitive]:
    """All that the network needs besides "add", for a batch with these labels."""
    return {
        "conv 2x2": convolution(0),
        "conv 3x3": convolution(1),
        "pool": (lambda x: F.max_pool2d(x, 2), pool_vjp),
        "norm": normalise(eps),
        "gelu": (F.gelu, gelu_vjp),
        "largest": (lambda x: x.amax((2, 3)), largest_vjp),
        "linear": (lambda x, w: x @ w.T, lambda g, out, x, w: (g @ w, g.T @ x)),
        "ninth": (lambda x: x / 9, lambda g, out, x: (g / 9,)),
        "cross entropy": cross_entropy(labels),
    }


def network(
    apply: Callable[..., Any], parameter: Mapping[str, Any], images: Any, stages: int = 3
) -> Any:
    """The loss of a ResidualNetwork whose scales are 1, as it is after construction.

    `apply(name, *values)` runs a primitive; `parameter` has values by the names of `state_dict`.
    """

    def unit(x: Any, name: str, pool: bool) -> Any:
        x = apply("conv 3x3", x, parameter[f"{name}.convolution.weight"])
        x = apply("pool", x) if pool else x
        return apply("gelu", apply("norm", x, parameter[f"{name}.norm.bias"]))

    x = apply("gelu", apply("conv 2x2", images, parameter["stem.weight"]))
    for stage in range(stages):
        x = unit(x, f"stages.{stage}.down", pool=True)
        x = x + unit(x, f"stages.{stage}.branch", pool=False)
    x = apply("linear", apply("largest", x), parameter["head.weight"])
    return apply("cross entropy", apply("ninth", x))


@dataclass(frozen=True)
class Batch:
    """A network in float64, images [B, 3, 32, 32], labels [B], and torch's own gradients."""

    model: ResidualNetwork
    images: Tensor
    labels: Tensor
    gradients: Mapping[str, Tensor]

    @property
    def parameters(self) -> dict[str, Tensor]:
        """By name, without history, frozen ones too."""
        return {name: p.detach() for name, p in self.model.named_parameters()}


def batch(size: int = 4, seed: int = 4) -> Batch:
    """A new network and made-up images; what torch.autograd makes of them."""
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = ResidualNetwork().double()
    images = torch.randn(size, 3, 32, 32, generator=generator, dtype=torch.float64)
    labels = torch.randint(10, (size,), generator=generator)
    F.cross_entropy(model(images), labels).backward()
    gradients = {n: p.grad for n, p in model.named_parameters() if p.requires_grad}
    return Batch(model, images, labels, gradients)


def differences(mine: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> dict[str, float]:
    """By name of `theirs`: the largest difference, relative to the largest element of theirs."""
    return {
        name: ((mine[name] - tensor).abs().max() / tensor.abs().max()).item()
        for name, tensor in theirs.items()
    }
