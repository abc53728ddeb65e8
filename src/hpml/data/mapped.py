"""Several record files as one array of images, memory-mapped."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import DTypeLike

SHAPE = (3, 32, 32)
RECORD = 1 + 3 * 32 * 32
# All pixels of an image as one element: gathering copies each by a single memcpy.
LAYOUT = np.dtype([("label", np.uint8), ("pixels", f"V{RECORD - 1}")])


class MappedImages:
    """The images of CIFAR-10 record files, uint8 [N, 3, 32, 32], read from memory maps on demand.

    Behaves like a read-only array where it matters: `len`, `shape`, `dtype`, an index, a slice or
    an array of indices (the batch is copied out in one go, whatever files it is from), and
    `numpy.asarray` (copies everything). Ranks on one machine share the pages of the maps.
    """

    dtype = np.dtype(np.uint8)

    def __init__(self, files: Sequence[Path]):
        self._files = tuple(files)
        records = [np.memmap(path, LAYOUT, mode="r").view(np.ndarray) for path in files]
        self._labels = [part["label"] for part in records]
        self._parts = [part["pixels"] for part in records]
        self._anywhere, self._places = _from_all(self._parts)
        self.shape = (len(self._places), *SHAPE)

    def __len__(self) -> int:
        return self.shape[0]

    def __reduce__(self) -> tuple:
        return MappedImages, (self._files,)  # a process of its own maps the files itself

    def labels(self) -> np.ndarray:
        """The label byte of every record, uint8 [N]."""
        return np.concatenate(self._labels)

    def __getitem__(self, index: int | slice | np.ndarray | Sequence[int]) -> np.ndarray:
        """One image [3, 32, 32], or a batch [n, 3, 32, 32]: a copy, in the order of the indices.

        A mask of N is an array of indices, too. Raises IndexError for an index outside [-N, N), or
        one that is not an integer.
        """
        if not isinstance(index, slice):
            index = np.asarray(index)
            if index.ndim > 1:
                what = f"images are indexed by a list of integers, not by {index.ndim} axes"
                raise IndexError(what)
            index = index if index.size else index.astype(np.int64)
        places = self._places[index]
        picked = _images(self._anywhere[np.atleast_1d(places)])
        return picked if places.ndim else picked[0]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("mapped images become an array only by a copy")
        everything = _images(np.concatenate(self._parts))
        return everything if dtype is None else everything.astype(dtype, copy=False)


def _from_all(parts: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """One array for the images of all maps, and for each image its place in it, int64 [N].

    Its elements begin one byte after another, from the lowest map on: most of them are not images,
    or lie between two maps, where no memory is, and must not be touched. So a batch from several
    files is gathered as fast as from one: each image is copied once.
    """
    lowest = min(parts, key=lambda part: part.ctypes.data)
    begins = [part.ctypes.data - lowest.ctypes.data for part in parts]
    places = [
        begin + RECORD * np.arange(len(part), dtype=np.int64)
        for begin, part in zip(begins, parts, strict=True)
    ]
    places = np.concatenate(places)
    return as_strided(lowest, (int(places.max()) + 1,), (1,), writeable=False), places


def _images(pixels: np.ndarray) -> np.ndarray:
    """A view, uint8 [N, 3, 32, 32], of N elements with all pixels of an image in each."""
    return pixels.view(np.uint8).reshape(-1, *SHAPE)
