"""Gradients that the parent computes, where the samples are.

Which gradients were asked for, when and at which weights, is then not a rank's own word.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from hpml.ranks import ask
from hpml.ranks.evidence import Asked, RankEvidence


def gradient_for(own: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """On a rank: `gradient(weights)`, for weights of the shape of its `own`."""
    shape = tuple(own.shape)

    def gradient(weights: torch.Tensor) -> torch.Tensor:
        if tuple(weights.shape) != shape:
            shapes = f"{tuple(weights.shape)}, expected {shape}"
            raise ValueError(f"gradient(weights): weights are of shape {shapes}")
        return ask({"weights": weights.detach()})

    return gradient


def weights_of(request: Any, shape: Sequence[int]) -> torch.Tensor:
    """In the parent: the weights of a rank's request, as float64. Raises ValueError where there are
    none of that shape."""
    weights = request.get("weights") if isinstance(request, dict) else None
    fit = isinstance(weights, torch.Tensor) and tuple(weights.shape) == tuple(shape)
    if not fit or not weights.is_floating_point():
        raise ValueError(f"gradients are for weights of shape {tuple(shape)}")
    return weights.double()


def gradients(rank: RankEvidence) -> list[Asked]:
    """What a rank asked for that was served, or is to be."""
    return [asked for asked in rank.asked if not asked.refused]
