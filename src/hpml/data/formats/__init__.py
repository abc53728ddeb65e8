"""The same images on disk in six formats, behind one interface.

files = FORMATS["files"]
files.write(folder, images, labels)     # images uint8 [N, 3, 32, 32], labels [N]
reader = files.open(folder)             # finds what is where
image, label = reader[17]               # any image
for image, label in reader: ...         # all, in the order in which they were written

In each format an image is the same 3,073 bytes (record.py), so that what is compared is the way to
the bytes and nothing else: a PNG or a JPEG would add the same decoding to all of them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from hpml.data.formats import files, hdf5, lmdb_tree, memory_map, tar, tfrecord_stream
from hpml.data.formats.record import Sample

__all__ = ["FORMATS", "Format", "Reader", "Sample"]


class Reader(Protocol):
    """The images of one folder. Samples own their bytes: nothing is read later than asked for."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> Sample: ...
    def __iter__(self) -> Iterator[Sample]: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Format:
    """A way to keep images.

    `write` makes the folder, which must not be there, whole or not at all.
    """

    write: Callable[[Path, np.ndarray, np.ndarray], None]
    open: Callable[[Path], Reader]


FORMATS = {
    "files": Format(files.write, files.Files),  # a file of its own for each image
    "tar": Format(tar.write, tar.Tar),  # all headers are read first
    "TFRecord": Format(tfrecord_stream.write, tfrecord_stream.Stream),  # all lengths are read first
    "HDF5": Format(hdf5.write, hdf5.Dataset),  # offset = index × size
    "LMDB": Format(lmdb_tree.write, lmdb_tree.Tree),  # a B+ tree by key, in a memory map
    "memory map": Format(memory_map.write, memory_map.Map),  # offset = index × size
}
