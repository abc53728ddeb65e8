"""LMDB: a B+ tree of keys and values in one file, read through a memory map.

Values of more than about half a page go to pages of their own, so that a record of 3,073 bytes
takes one of 4,096 (https://lmdb.readthedocs.io).
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hpml.data.formats.record import Sample, records, sample
from hpml.files.atomic import whole_folder

NAME = "images.lmdb"
ROOM = 2  # times the bytes of the records: the most that the file may take


def write(folder: Path, images: np.ndarray, labels: np.ndarray) -> None:
    """One file; the key of an image is its number, in 4 bytes, big-endian: the tree's order."""
    import lmdb

    content = records(images, labels)
    size = ROOM * content.nbytes + 2**20
    with (
        whole_folder(folder) as made,
        lmdb.open(str(made / NAME), subdir=False, lock=False, map_size=size) as tree,
        tree.begin(write=True) as transaction,
    ):
        for index, record in enumerate(content):
            transaction.put(_key(index), record.tobytes(), append=True)


class Tree:
    """Looks an index up in the tree; walks along its leaves for all."""

    def __init__(self, folder: Path):
        import lmdb

        self._tree = lmdb.open(str(Path(folder) / NAME), subdir=False, lock=False, readonly=True)
        self._transaction = self._tree.begin()

    def __len__(self) -> int:
        return self._tree.stat()["entries"]

    def __getitem__(self, index: int) -> Sample:
        record = self._transaction.get(_key(index))
        if record is None:
            raise IndexError(f"image {index} asked for, there are {len(self)}")
        return sample(record)

    def __iter__(self) -> Iterator[Sample]:
        with self._transaction.cursor() as cursor:
            yield from map(sample, cursor.iternext(keys=False))

    def close(self) -> None:
        self._transaction.abort()
        self._tree.close()


def _key(index: int) -> bytes:
    return index.to_bytes(4, "big")
