"""Layers whose compute is played by waiting, for more ranks than there are cores."""

import time
from typing import Any

import torch
from torch import Tensor, nn


class Waiting(nn.Module):
    """Waits `forward` seconds in the forward pass, `backward` seconds in the backward pass.

    A tensor of any shape goes in, and the same times one trained weight comes out: so there are
    gradients to send. A rank that waits needs no core, so any number of them wait side by side
    as if each had a machine of its own.
    """

    def __init__(self, forward: float, backward: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.seconds = (forward, backward)

    def forward(self, given: Tensor) -> Tensor:
        return _Wait.apply(given * self.weight, *self.seconds)


class WaitingLayer(nn.Module):
    """As `Waiting`, with `count` trained weights: their gradient (zeros) is there after `backward`.

    The tensor that goes in comes out as it is. So layers one after another have their gradients
    ready one after another, the last layer's first, as in a network that computes.
    """

    def __init__(self, forward: float, backward: float, count: int):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(count))
        self.seconds = (forward, backward)

    def forward(self, given: Tensor) -> Tensor:
        return _WaitForWeights.apply(given, self.weight, *self.seconds)


class _WaitForWeights(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, given: Tensor, weight: Tensor, forward: float, backward: float) -> Tensor:
        ctx.seconds, ctx.like = backward, weight
        time.sleep(forward)
        return given.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        time.sleep(ctx.seconds)
        return gradient, torch.zeros_like(ctx.like), None, None


class _Wait(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, given: Tensor, forward: float, backward: float) -> Tensor:
        ctx.seconds = backward
        time.sleep(forward)
        return given.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        time.sleep(ctx.seconds)
        return gradient, None, None
