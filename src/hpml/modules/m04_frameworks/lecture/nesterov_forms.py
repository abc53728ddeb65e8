"""Nesterov's momentum as Sutskever et al. (2013) write it, and as PyTorch does.

Sutskever, Martens, Dahl and Hinton 2013, On the importance of initialization and momentum in deep
learning (ICML), section 2: the gradient is taken where the momentum will lead,
v ← μ v − ε ∇f(θ + μ v), θ ← θ + v. PyTorch keeps p = θ + μ v as its parameter, and a buffer without
the learning rate: b ← μ b + ∇f(p), p ← p − ε (∇f(p) + μ b).
"""

import torch

from hpml.modules.m04_frameworks.lecture.valley import START, valley

MOMENTUM = 0.9
Points = list[tuple[float, float]]


def _gradient(point: torch.Tensor) -> torch.Tensor:
    point = point.detach().requires_grad_()
    return torch.autograd.grad(valley(*point), point)[0]


def sutskever(rates: list[float]) -> Points:
    """The point θ + μ v after each step; a step for each of `rates`. float64."""
    theta, velocity = torch.tensor(START, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    points = []
    for rate in rates:
        velocity = MOMENTUM * velocity - rate * _gradient(theta + MOMENTUM * velocity)
        theta = theta + velocity
        points.append(tuple((theta + MOMENTUM * velocity).tolist()))
    return points


def pytorch(rates: list[float]) -> Points:
    """The parameter of torch.optim.SGD after each step, likewise."""
    point = torch.nn.Parameter(torch.tensor(START, dtype=torch.float64))
    optimizer = torch.optim.SGD([point], lr=rates[0], momentum=MOMENTUM, nesterov=True)
    points = []
    for rate in rates:
        optimizer.param_groups[0]["lr"] = rate
        point.grad = _gradient(point)
        optimizer.step()
        points.append(tuple(point.tolist()))
    return points


def apart(rates: list[float]) -> float:
    """The largest difference between the two forms' points, over all steps."""
    pairs = zip(sutskever(rates), pytorch(rates), strict=True)
    return max(abs(a - b) for one, other in pairs for a, b in zip(one, other, strict=True))
