"""One file of records without an index: the places are looked up when the first is asked for."""

import os
from abc import ABC, abstractmethod
from pathlib import Path

from hpml.data.formats.record import Sample, sample


class Indexed(ABC):
    """The records of the file at `path`: any of them by its number, each with one read."""

    def __init__(self, path: Path):
        self._path = path
        self._places: list[tuple[int, int]] | None = None
        self._file: int | None = None

    @abstractmethod
    def _find_places(self) -> list[tuple[int, int]]:
        """Offset and size in bytes of each record, from one pass over the file's headers."""

    def __len__(self) -> int:
        return len(self._index())

    def __getitem__(self, index: int) -> Sample:
        offset, size = self._index()[index]
        if self._file is None:
            self._file = os.open(self._path, os.O_RDONLY)
        return sample(os.pread(self._file, size, offset))

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _index(self) -> list[tuple[int, int]]:
        if self._places is None:
            self._places = self._find_places()
        return self._places
