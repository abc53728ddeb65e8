"""A vision transformer for 32×32 images: equal blocks of large matrices, made to be split.

Patches of an image are the tokens (Dosovitskiy et al. 2021, An Image is Worth 16x16 Words,
arXiv:2010.11929, section 3.1); the mean over the tokens is classified, not a token of its own
(Beyer et al. 2022, Better plain ViT baselines, arXiv:2205.01580). No dropout.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Size:
    """Width of a token, number of blocks, attention heads in each."""

    width: int
    depth: int
    heads: int


# Heads can be split over 2 and 4 ranks, those of "small" also over 3.
SIZES = {"tiny": Size(width=64, depth=4, heads=4), "small": Size(width=192, depth=6, heads=12)}


class VisionTransformer(nn.Module):
    """Images [B, 3, image, image], normalised, to logits [B, classes].

    `embed`, then each of `blocks`, then `norm`, the mean over the tokens, and `head`: a chain, each
    of whose links takes what the one before gives, [B, tokens, width], tokens = (image / patch)².
    Raises ValueError where `patch` does not divide `image`, or `heads` does not divide `width`.
    """

    def __init__(
        self,
        width: int = 64,
        depth: int = 4,
        heads: int = 4,
        patch: int = 4,
        image: int = 32,
        classes: int = 10,
    ):
        super().__init__()
        self.embed = Embed(width, patch, image)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)
        self.apply(_initialise)

    @classmethod
    def of_size(cls, name: str, **options: int) -> "VisionTransformer":
        """The one called "tiny" (0.2 million parameters) or "small" (2.7 million)."""
        return cls(**(vars(SIZES[name]) | options))

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.embed(images)
        for block in self.blocks:
            tokens = block(tokens)
        return self.head(self.norm(tokens).mean(dim=1))


class Embed(nn.Module):
    """Images [B, 3, image, image] to tokens [B, (image / patch)², width].

    One linear layer for the pixels of every patch, plus what is learned about each position.
    """

    def __init__(self, width: int, patch: int, image: int):
        super().__init__()
        if image % patch:
            raise ValueError(f"patches of {patch} pixels do not divide images of {image}")
        self.patch = patch
        self.patches = nn.Linear(3 * patch**2, width)
        self.positions = nn.Parameter(torch.empty((image // patch) ** 2, width))
        nn.init.trunc_normal_(self.positions, std=0.02)

    def forward(self, images: Tensor) -> Tensor:
        pixels = F.unfold(images, self.patch, stride=self.patch).transpose(1, 2)
        return self.patches(pixels) + self.positions


class Block(nn.Module):
    """Tokens [B, T, width] to tokens: x + attention(norm1(x)), then x + mlp(norm2(x)).

    The norm comes before each layer and leaves a way past it that nothing is done to ("pre-norm",
    Xiong et al. 2020, arXiv:2002.04745, figure 1).
    """

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = Mlp(width)

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens + self.attention(self.norm1(tokens))
        return tokens + self.mlp(self.norm2(tokens))


class Attention(nn.Module):
    """softmax(Q Kᵀ / √d) V in each head of d = width / heads, heads side by side, then `out`.

    Vaswani et al. 2017, Attention Is All You Need, arXiv:1706.03762, section 3.2. Tokens
    [B, T, width] to [B, T, width]. It works on as many whole heads as `query`, `key` and `value`
    give, which are fewer on a rank that holds a share of them.
    """

    def __init__(self, width: int, heads: int):
        super().__init__()
        if width % heads:
            raise ValueError(f"{heads} heads do not divide a width of {width}")
        self.head_width = width // heads
        self.query = nn.Linear(width, width)
        # A bias of the keys would add the same to all scores of a query: softmax does not see it,
        # its gradient is rounding noise, and Adam would follow that.
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        query, key, value = (
            layer(tokens).unflatten(-1, (-1, self.head_width)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        heads = F.scaled_dot_product_attention(query, key, value)  # [B, heads, T, head width]
        return self.out(heads.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    """down(GELU(up(x))), four times as wide inside; for each token alone."""

    def __init__(self, width: int):
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(tokens)))


def _initialise(layer: nn.Module) -> None:
    # Weights as the vision transformer's authors start them; biases say nothing at first.
    if isinstance(layer, nn.Linear):
        nn.init.xavier_uniform_(layer.weight)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
