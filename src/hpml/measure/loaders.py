"""The same batches from the same images in different ways: what loads them how fast?

Each way gives batches of normalised float32 images [B, 3, 32, 32], mirrored by a coin and shifted
by up to two pixels, and their labels. They can be iterated again and again.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from hpml.data import Split, augment, batches, normalize
from hpml.data.batches import MEAN, STD
from hpml.data.formats import FORMATS
from hpml.measure.clock import with_threads

PAD = 2
Batch = tuple[torch.Tensor, torch.Tensor]


class Samples(Protocol):
    """Images uint8 [3, H, W] and their labels, by index."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> tuple[np.ndarray, int]: ...


@dataclass(frozen=True)
class Vectorised:
    """The course's loader: gather a batch from the memory map, then augment it as a whole.

    Without `augmented`, batches are uint8 and as they are on the disk.
    """

    split: Split
    order: np.ndarray
    batch_size: int
    augmented: bool = True

    def __iter__(self) -> Iterator[Batch]:
        for images, labels in batches(self.split, self.order, self.batch_size):
            yield (normalize(augment(images, pad=PAD)) if self.augmented else images), labels


class OneByOne(Dataset):
    """A map-style data set over `reader`, which gives an image and its label for an index: reads,
    augments and normalises one at a time.

    The steps are those that torchvision composes: RandomCrop with padding, RandomHorizontalFlip,
    Normalize.
    """

    def __init__(self, reader: Samples):
        self._reader = reader
        self._mean = torch.tensor(MEAN).view(3, 1, 1)
        self._std = torch.tensor(STD).view(3, 1, 1)

    def __len__(self) -> int:
        return len(self._reader)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        pixels, label = self._reader[index]
        image = torch.tensor(pixels).float().div_(255)
        _, height, width = image.shape
        padded = torch.nn.functional.pad(image, (PAD,) * 4, mode="reflect")
        down, right = torch.randint(0, 2 * PAD + 1, (2,)).tolist()
        image = padded[:, down : down + height, right : right + width]
        if torch.rand(()) < 0.5:
            image = image.flip(2)
        return image.sub(self._mean).div_(self._std), label


def data_loader(
    folder: Path, order: Sequence[int], batch_size: int, workers: int, format: str = "files"
) -> DataLoader:
    """`one_by_one` over the images in `folder`."""
    return one_by_one(FORMATS[format].open(folder), order, batch_size, workers)


def one_by_one(reader: Samples, order: Sequence[int], batch_size: int, workers: int) -> DataLoader:
    """PyTorch's DataLoader over `OneByOne`, with `workers` processes that stay between passes."""
    # More workers than cores may be what is tried; it warns when made, and when iterated.
    warnings.filterwarnings("ignore", "This DataLoader will create")
    return DataLoader(
        OneByOne(reader),
        batch_size=batch_size,
        sampler=list(order),
        num_workers=workers,
        persistent_workers=workers > 0,
    )


def one_thread() -> AbstractContextManager[None]:
    """One thread for torch in this process, as each worker of a DataLoader has."""
    return with_threads(1)
