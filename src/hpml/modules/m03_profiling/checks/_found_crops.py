"""Which image of a file is a loaded one, cropped where, and mirrored or not: exactly, as all are
known.

A square of 4 x 4 pixels in the middle of a crop is inside the image wherever the crop is, so that
it is looked up among all such squares. Then all pixels are compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from hpml.modules.m03_profiling.checks._slow_loader import MEAN, STD

PAD, SIDE = 4, 32
PLACES = 2 * PAD + 1  # of a crop's first row, and of its first column
RECORD = 1 + 3 * SIDE * SIDE
MIDDLE, SQUARE = 14, 4  # of the square that is looked up
EXACT = 1e-4  # of a normalised value; a gray level is 0.015, and bfloat16 is off by up to 0.008

_MEAN = np.array(MEAN, dtype=np.float32).reshape(3, 1, 1)
_STD = np.array(STD, dtype=np.float32).reshape(3, 1, 1)


@dataclass(frozen=True)
class Crops:
    """What the images of an epoch were made of, by their places in it: int64 arrays of its length.

    `image` is the number in the file, -1 where it was not found; `top` and `left` are the crop's
    first row and column in the padded image, 0 to 8; `mirrored` is 0 or 1. `exact` (bool): all
    pixels are right; `red`: all red ones are. `misread` names what was done with values of a
    loader whose images are found when that is undone: "twice", "by_256", "unscaled",
    "unnormalised", "raw", "wrapped"; "" where they are right. `labels` came with the images,
    `expected` are those of the images found.
    """

    image: np.ndarray
    top: np.ndarray
    left: np.ndarray
    mirrored: np.ndarray
    exact: np.ndarray
    red: np.ndarray
    labels: np.ndarray
    expected: np.ndarray
    misread: str
    sizes: tuple[int, ...]  # of the batches


class File:
    """A file's images, and where each square of 4 x 4 pixels is found in them."""

    def __init__(self, content: bytes) -> None:
        records = np.frombuffer(content, dtype=np.uint8).reshape(-1, RECORD)
        self.labels = records[:, 0].astype(np.int64)
        images = records[:, 1:].reshape(-1, 3, SIDE, SIDE)
        self.padded = np.pad(images, ((0, 0), (0, 0), (PAD, PAD), (PAD, PAD)))
        where = slice(MIDDLE, MIDDLE + PLACES - 1 + SQUARE)
        red = self.padded[:, 0, where, where]
        squares = np.lib.stride_tricks.sliding_window_view(red, (SQUARE, SQUARE), axis=(1, 2))
        both = np.stack([squares, squares[..., ::-1]], axis=3)  # image, top, left, mirrored
        self._shape = both.shape[:4]
        self._found = {key: place for place, key in enumerate(_keys(both))}

    def look_up(self, images: np.ndarray) -> tuple[np.ndarray, ...]:
        """Number, top, left and mirrored of each image, uint8 (N, 3, 32, 32); -1: not found."""
        inner = slice(MIDDLE, MIDDLE + SQUARE)
        found = [self._found.get(key, -1) for key in _keys(images[:, 0, inner, inner])]
        places = np.array(found, dtype=np.int64)
        each = np.unravel_index(np.maximum(places, 0), self._shape)
        return tuple(np.where(places < 0, -1, one) for one in each)

    def crops(self, where: tuple[np.ndarray, ...]) -> np.ndarray:
        """The right images, normalised, float32 (N, 3, 32, 32); anything where not found."""
        made = np.empty((len(where[0]), 3, SIDE, SIDE), dtype=np.uint8)
        for place, (image, top, left, mirrored) in enumerate(zip(*where, strict=True)):
            crop = self.padded[image, :, top : top + SIDE, left : left + SIDE]
            if image >= 0:
                made[place] = crop[..., ::-1] if mirrored else crop
        return (made.astype(np.float32) / 255 - _MEAN) / _STD


def _keys(squares: np.ndarray) -> list[bytes]:
    data, size = squares.tobytes(), SQUARE * SQUARE
    return [data[start : start + size] for start in range(0, len(data), size)]


def _undone(values: np.ndarray) -> dict[str, np.ndarray]:
    """By what a loader did, the gray levels that its values would stand for."""
    once = values * _STD + _MEAN
    return {
        "": once * 255,
        "twice": (once * _STD + _MEAN) * 255,
        "by_256": once * 256,
        "unscaled": once,
        "unnormalised": values * 255,
        "raw": values,
    }


def read_epoch(file: File, batches: Sequence[Sequence[Any]]) -> Crops:
    """What the batches of one epoch are, each a pair of float32 (B, 3, 32, 32) and int64 (B,)."""
    values = np.concatenate([images.numpy() for images, _ in batches])
    labels = np.concatenate([one.numpy() for _, one in batches])
    with np.errstate(all="ignore"):  # values that are not images may be anything
        meanings = _undone(values)
        meanings["wrapped"] = np.mod(np.nan_to_num(meanings[""]), 256)
        best, where = "", None
        for name, gray in meanings.items():
            levels = np.clip(np.nan_to_num(np.rint(gray)), 0, 255).astype(np.uint8)
            places = file.look_up(levels)
            found = (places[0] >= 0).mean()
            if where is None or found > (where[0] >= 0).mean() + 0.5:
                best, where = name, places
            if found > 0.5:
                break
        assert where is not None
        right = np.abs(file.crops(where) - values).max(axis=(2, 3)) <= EXACT  # by image and colour
    there = where[0] >= 0
    image, top, left, mirrored = where
    return Crops(
        image,
        top,
        left,
        mirrored,
        exact=right.all(axis=1) & there,
        red=right[:, 0] & there,
        labels=labels,
        expected=np.where(there, file.labels[where[0]], -1),
        misread=best,
        sizes=tuple(len(one) for _, one in batches),
    )


def is_batch(batch: Any) -> bool:
    """Whether it is a pair of images and labels in the dtypes and shapes that the text asks for."""
    if not isinstance(batch, list) or len(batch) != 2:
        return False
    images, labels = batch
    return (
        isinstance(images, torch.Tensor)
        and isinstance(labels, torch.Tensor)
        and images.dtype == torch.float32
        and labels.dtype == torch.int64
        and images.shape[1:] == (3, SIDE, SIDE)
        and labels.shape == images.shape[:1]
    )
