"""Ten noisy classes of small images, and a network for them, for exercises that train.

Classes and functions are sent to the ranks by value, like all of `hpml.checks`.
"""

import torch
from torch import nn
from torch.utils.data import Dataset


class Images(Dataset):
    """For expected values: images (n, 3, h, w) and labels, int64 (n,); records what is `taken`."""

    def __init__(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        self.images, self.labels = images, labels
        self.taken: list[int] = []

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        self.taken.append(int(index))
        return self.images[index], self.labels[index]


def noisy_classes(
    draw: torch.Generator, length: int, dtype: torch.dtype, side: int = 8
) -> tuple[torch.Tensor, torch.Tensor]:
    """Images (length, 3, side, side) of ten classes with noise, and their labels, int64 (length,).

    The larger they are, the more they differ in bytes from a network's gradient.
    """
    classes = torch.randn(10, 3, side, side, generator=draw, dtype=dtype)
    labels = torch.randint(0, 10, (length,), generator=draw)
    noise = torch.randn(length, 3, side, side, generator=draw, dtype=dtype)
    return classes[labels] + noise, labels


def new_model(seed: int, dtype: torch.dtype, side: int = 8) -> nn.Module:
    """A small convolutional network, (n, 3, side, side) -> (n, 10), of 554 weights.

    It is drawn in float32, so that it is the same where an answer has set another default dtype.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(3, 8, kernel_size=3, padding=1, dtype=torch.float32),
            nn.ReLU(),
            nn.AvgPool2d(side // 2),
            nn.Flatten(),
            nn.Linear(32, 10, dtype=torch.float32),
        ).to(dtype)
