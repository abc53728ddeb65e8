"""One file of records, mapped into memory: the layout of CIFAR-10, and of hpml.data.mapped.

Nothing is read by a call. The first touch of a page makes the kernel fetch it, with its neighbours.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hpml.data.formats.record import Sample, records, sample
from hpml.data.mapped import RECORD
from hpml.files.atomic import whole_folder

NAME = "images.bin"


def write(folder: Path, images: np.ndarray, labels: np.ndarray) -> None:
    """One file: record after record."""
    with whole_folder(folder) as made:
        records(images, labels).tofile(made / NAME)


class Map:
    """Copies the record out of the map. Processes that map the same file share its pages."""

    def __init__(self, folder: Path):
        mapped = np.memmap(Path(folder) / NAME, np.uint8, mode="r")
        self._records = mapped.view(np.ndarray).reshape(-1, RECORD)

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, index: int) -> Sample:
        return sample(self._records[index].copy())

    def __iter__(self) -> Iterator[Sample]:
        return (sample(record.copy()) for record in self._records)

    def close(self) -> None:
        del self._records  # the map goes with the last view of it
