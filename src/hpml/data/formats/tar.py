"""A tar archive, read as WebDataset reads it: in one stream, from its start to its end.

A member takes a header of 512 bytes and is padded to a multiple of 512, so that a record of 3,073
bytes takes 4,096 (5,120 with a modification time in fractions of a second, which WebDataset's
writer takes if not told otherwise). A tar has no index. WebDataset needs none: it shuffles archives
and, with a buffer, what streams past (https://github.com/webdataset/webdataset). For access to any
image, all headers are read first.
"""

import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hpml.data.formats.indexed import Indexed
from hpml.data.formats.record import Sample, records, sample
from hpml.files.atomic import whole_folder

NAME, FIELD = "images.tar", "bin"


def write(folder: Path, images: np.ndarray, labels: np.ndarray) -> None:
    """One archive, with a member `00000.bin` for each image."""
    import webdataset

    width = len(str(len(images) - 1))
    with whole_folder(folder) as made, webdataset.TarWriter(str(made / NAME), mtime=0) as archive:
        for index, record in enumerate(records(images, labels)):
            archive.write({"__key__": f"{index:0{width}}", FIELD: record.tobytes()})


class Tar(Indexed):
    """Iterates by WebDataset; finds single images by an index made when the first is asked for."""

    def __init__(self, folder: Path):
        super().__init__(Path(folder) / NAME)

    def __iter__(self) -> Iterator[Sample]:
        import webdataset

        stream = webdataset.WebDataset(str(self._path), shardshuffle=False)
        return (sample(member[FIELD]) for member in stream)

    def _find_places(self) -> list[tuple[int, int]]:
        with tarfile.open(self._path) as archive:
            return [(member.offset_data, member.size) for member in archive]
