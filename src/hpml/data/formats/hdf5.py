"""A table in an HDF5 file: an array on disk with a name, sliced as one in memory.

The table is stored in one piece (contiguous, no chunks and no compression), so that a row is found
by its number (https://docs.h5py.org/en/stable/high/dataset.html).
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hpml.data.formats.record import Sample, records, sample
from hpml.files.atomic import whole_folder

NAME, TABLE = "images.h5", "records"
BLOCK = 256  # rows of a read, when all are read in turn


def write(folder: Path, images: np.ndarray, labels: np.ndarray) -> None:
    """One file with the table `records`, uint8 [N, 3073]."""
    import h5py

    with whole_folder(folder) as made, h5py.File(made / NAME, "w") as file:
        file.create_dataset(TABLE, data=records(images, labels))


class Dataset:
    """Reads one row for an index, 256 at a time for all."""

    def __init__(self, folder: Path):
        import h5py

        self._file = h5py.File(Path(folder) / NAME, "r")
        self._table = self._file[TABLE]

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, index: int) -> Sample:
        return sample(self._table[index])

    def __iter__(self) -> Iterator[Sample]:
        for start in range(0, len(self), BLOCK):
            yield from map(sample, self._table[start : start + BLOCK])

    def close(self) -> None:
        self._file.close()
