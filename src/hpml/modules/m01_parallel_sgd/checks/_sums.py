"""Sums over ranks: tensors from whose sum the terms can be recovered, to explain a wrong sum.

Values are whole numbers, so that sums are exact in every dtype and every order.
"""

from collections.abc import Sequence
from typing import Any

import torch

from hpml.checks.compare import Difference, difference

LARGEST = 1000  # of a value: sums of a few are exact in float32, but rounded in float16
FEW = 64  # elements that are enough to recover the terms of a sum


def draw_tensor(draw: torch.Generator, dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Whole numbers from -1000 to 1000."""
    return torch.randint(-LARGEST, LARGEST + 1, shape, generator=draw).to(dtype)


def multiples(got: torch.Tensor, parts: Sequence[torch.Tensor]) -> list[float] | None:
    """The numbers k with got = k[0] · parts[0] + k[1] · parts[1] + …, by least squares.

    Each is a multiple of 1 / len(parts), as in sums and means; None if there are no such numbers.
    `got` and the parts are one-dimensional and equally long.
    """
    count = len(parts)
    if len(got) <= count or not torch.isfinite(got[:FEW]).all():
        return None
    columns = torch.stack([part[:FEW].double() for part in parts], dim=1)
    target = got[:FEW].double()
    found = torch.linalg.lstsq(columns, target[:, None]).solution[:, 0]
    found = (found * count).round() / count
    return None if difference(columns @ found, target, 1e-6) else found.tolist()


def made_of(found: Sequence[float]) -> str:
    """`multiples` in words: "rank 0's + 2 × rank 3's"."""
    terms = [
        f"rank {rank}'s" if times == 1 else f"{times:g} × rank {rank}'s"
        for rank, times in enumerate(found)
        if times
    ]
    return " + ".join(terms) or "nothing but zeros"


def first_wrong_run(got: torch.Tensor, right: torch.Tensor) -> tuple[int, int]:
    """The first run of wrong elements of two tensors that differ, as [first, last)."""
    wrong = torch.ne(got.flatten(), right.flatten())
    first = int(wrong.int().argmax())
    rest = wrong[first:]
    return first, first + (len(rest) if rest.all() else int((~rest).int().argmax()))


def wrong_sum(
    got: Any, tensors: Sequence[torch.Tensor], right: torch.Tensor
) -> tuple[Difference, list[float] | None] | None:
    """How `got` differs from `right`, the sum of the ranks' `tensors`, and the `multiples` in the
    first wrong run of elements. None if it does not differ.
    """
    found = difference(got, right)
    if found is None:
        return None
    if not isinstance(got, torch.Tensor) or got.shape != right.shape or got.dtype != right.dtype:
        return found, None
    first, last = first_wrong_run(got, right)
    pieces = [tensor.flatten()[first:last] for tensor in tensors]
    made = multiples(got.flatten()[first:last], pieces)
    where = f"{found}: elements {first} to {last - 1} of {right.numel()} are not the sum"
    return Difference(f"{where}, but {made_of(made)}" if made else where), made
