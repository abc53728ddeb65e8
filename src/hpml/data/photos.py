"""The course's images as photos: JPEG files as large as a camera's, to be decoded and shrunk."""

import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image  # Pillow: matplotlib brings it

from hpml.data.cifar10 import Split

SIDE = 1536  # pixels
SMALL = 32


def write(split: Split, folder: Path, count: int, side: int = SIDE) -> list[Path]:
    """The first `count` images of `split`, enlarged to `side`² pixels: 00000.jpg and so on.

    They lie in a folder inside `folder` that is named by the images' checksum and their size: other
    photos get files of their own. Returns the files. Those that are there already are kept.
    """
    folder = folder / f"{zlib.crc32(split.images[:count].tobytes()):08x}_{side}"
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{index:05}.jpg" for index in range(count)]
    for index, file in enumerate(files):
        if not file.exists():
            pixels = np.ascontiguousarray(np.moveaxis(split.images[index], 0, -1))
            unfinished = file.with_suffix(".unfinished")
            large = Image.fromarray(pixels).resize((side, side), Image.Resampling.BICUBIC)
            large.save(unfinished, "JPEG", quality=85)
            unfinished.replace(file)
    return files


def read(file: Path) -> np.ndarray:
    """One photo, decoded and shrunk: uint8 [3, 32, 32]."""
    with Image.open(file) as photo:
        small = photo.convert("RGB").resize((SMALL, SMALL), Image.Resampling.BILINEAR)
    return np.ascontiguousarray(np.moveaxis(np.asarray(small), -1, 0))


def pack(files: Sequence[Path], packed: Path) -> np.ndarray:
    """All photos, decoded once: uint8 [N, 3, 32, 32], written to `packed` as a .npy file."""
    images = np.stack([read(file) for file in files])
    np.save(packed, images)
    return images
