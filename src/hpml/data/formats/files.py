"""A file for each image: the format in which most data sets come."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hpml.data.formats.record import Sample, records, sample
from hpml.files.atomic import whole_folder


def write(folder: Path, images: np.ndarray, labels: np.ndarray) -> None:
    """`00000.bin`, `00001.bin`, …: a record each."""
    width = len(str(len(images) - 1))
    with whole_folder(folder) as made:
        for index, record in enumerate(records(images, labels)):
            (made / f"{index:0{width}}.bin").write_bytes(record)


class Files:
    """Lists the folder once; then each image is an open, a read and a close."""

    def __init__(self, folder: Path):
        self._paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> Sample:
        with open(self._paths[index], "rb") as file:
            return sample(file.read())

    def __iter__(self) -> Iterator[Sample]:
        return (self[index] for index in range(len(self)))

    def close(self) -> None:
        pass
