"""An attention layer in parts: its projections, and attention itself, fused or with its scores in
memory.

The layer multiplies the tokens by four matrices, and in between it is softmax(Q Kᵀ / √d) V in each
head (Vaswani et al. 2017, arXiv:1706.03762, section 3.2). The scores Q Kᵀ, one number for each pair
of tokens, are neither its input nor its output: a kernel that keeps a block of them in the cache
need not write them (Dao et al. 2022, FlashAttention, arXiv:2205.14135, section 3.1).
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hpml.modules.m02_hardware.lecture.roofline import Work

PROJECTIONS, FUSED, WRITTEN = "projections", "fused attention", "attention by operations"


class Fused(nn.Module):
    """Queries, keys and values [3, batch, heads, tokens, width] to [batch, heads, tokens, width],
    by PyTorch's one kernel."""

    def forward(self, given: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(*given)


class ScoresWritten(nn.Module):
    """The same, operation by operation: scores [batch, heads, tokens, tokens] are written to
    memory, read by softmax, written and read again."""

    def __init__(self) -> None:
        super().__init__()
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, given: Tensor) -> Tensor:
        query, key, value = given
        scores = (query * query.shape[-1] ** -0.5) @ key.mT
        return self.softmax(scores) @ value


def parts(
    batch: int = 64, tokens: int = 64, width: int = 192, heads: int = 12
) -> dict[str, tuple[nn.Module, Tensor]]:
    """By name, each part with an input for it; float32, random. Raises ValueError where `heads` do
    not divide `width`."""
    if width % heads:
        raise ValueError(f"{heads} heads do not divide a width of {width}")
    given = torch.randn(3, batch, heads, tokens, width // heads)
    linear = nn.Sequential(*(nn.Linear(width, width) for _ in range(4)))
    return {
        PROJECTIONS: (linear, torch.randn(batch, tokens, width)),
        FUSED: (Fused(), given),
        WRITTEN: (ScoresWritten(), given),
    }


class Comparison(NamedTuple):
    """Attention itself both ways. `held`: fused it does at least twice as many FLOP for each byte.
    Whether it is faster, too, depends on where the ridge is, and on the kernel."""

    held: bool
    fused: Work
    written: Work

    def here(self, ridge: float) -> str:
        """Seconds of both beside a ridge in FLOP/byte, in words."""
        two = f"{1e3 * self.fused.seconds:.0f} and {1e3 * self.written.seconds:.0f} ms"
        if self.written.intensity < ridge:
            return f"The second is left of this machine's ridge; they take {two}"
        gain = (
            "fewer bytes gain nothing"
            if self.fused.seconds > self.written.seconds
            else "memory binds neither"
        )
        return f"Both are right of this machine's ridge, so {gain}: they take {two}"


def compare(works: Sequence[Work]) -> Comparison:
    """From pieces of work that include both."""
    by_name = {work.name: work for work in works}
    fused, written = by_name[FUSED], by_name[WRITTEN]
    return Comparison(fused.intensity > 2 * written.intensity, fused, written)
