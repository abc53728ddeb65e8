"""How a returned value differs from the expected one, in words."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class Difference:
    """What a value is, as the end of a sentence that names it, and what was expected.

    `expected` as in `Problem`; empty if `seen` is enough. As text: `seen` alone.
    """

    seen: str
    expected: str = ""

    def __str__(self) -> str:
        return self.seen


def difference(got: Any, expected: torch.Tensor, tolerance: float = 0.0) -> Difference | None:
    """How `got` differs from the tensor `expected`.

    None where type, dtype and shape are the same and every element is within `tolerance` times the
    largest magnitude in `expected` (or times 1, if that is larger). NaN is equal to nothing.
    """
    if not isinstance(got, torch.Tensor):
        return Difference(f"is {described(got)}", "a tensor")
    if got.dtype != expected.dtype:
        return Difference(f"is {named(got.dtype)}", named(expected.dtype))
    if got.shape != expected.shape:
        return Difference(f"has shape {tuple(got.shape)}", str(tuple(expected.shape)))
    if not expected.numel() or torch.equal(got, expected):
        return None
    if got.is_floating_point() and not torch.isfinite(got).all():
        return Difference("has elements that are not finite")
    gap = (got.double() - expected.double()).abs().max().item()
    if gap <= tolerance * max(1.0, expected.double().abs().max().item()):
        return None
    return Difference(f"differs by up to {gap:.2g}")


def state_difference(
    got: Any, expected: Mapping[str, torch.Tensor], tolerance: float = 0.0
) -> Difference | None:
    """The first difference of `got` from `expected`, a dict of tensors by name, or None."""
    if not isinstance(got, dict):
        return Difference(f"it is {described(got)}", "a dict of tensors")
    if missing := [name for name in expected if name not in got]:
        return Difference(f"{missing[0]} is missing")
    if more := [name for name in got if name not in expected]:
        return Difference(f"{more[0]} should not be there")
    for name, tensor in expected.items():
        if found := difference(got[name], tensor, tolerance):
            return Difference(f"{name} {found}", found.expected)
    return None


def state_of(model: nn.Module) -> dict[str, torch.Tensor]:
    """A copy of the model's parameters and buffers, by name, for a later comparison."""
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def is_number(value: Any) -> bool:
    """Whether it is an int or a float, and no int beyond a float's range. NaN is a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, float) or abs(value) <= sys.float_info.max


def described(value: Any) -> str:
    """A value in a few words, for a sentence: None, 3, 'a str', 'a list of 4'."""
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        return "an int beyond a float's range"
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    article = "an" if type(value).__name__[0] in "aeiou" else "a"
    kind = f"{article} {type(value).__name__}"
    return f"{kind} of {len(value)}" if isinstance(value, list | tuple | dict) else kind


def named(dtype: torch.dtype) -> str:
    """A dtype as PyTorch's users write it: float32."""
    return str(dtype).removeprefix("torch.")
