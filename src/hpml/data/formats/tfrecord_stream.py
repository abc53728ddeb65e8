"""A TFRecord file, written and read without TensorFlow.

The format (https://www.tensorflow.org/tutorials/load_data/tfrecord): for each record its length,
uint64; the masked CRC-32C of the length, uint32; the data; the masked CRC-32C of the data. All
little-endian. What the data are is up to the writer: here a record, in hpml.data.tfrecord a
`tf.train.Example`. There is no index: for access to any record, all lengths are read first.
"""

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hpml.data.formats.indexed import Indexed
from hpml.data.formats.record import Sample, records, sample
from hpml.files.atomic import whole_folder

NAME = "images.tfrecord"
HEAD, TAIL = 12, 4  # bytes before and after the data of a record
BUFFER = 2**18  # bytes of a read: as many as tf.data.TFRecordDataset takes at a time
CASTAGNOLI = 0x82F63B78  # the polynomial of CRC-32C, bits reversed (RFC 3720, appendix B.4)


def write(folder: Path, images: np.ndarray, labels: np.ndarray) -> None:
    """One file, readable by `tf.data.TFRecordDataset`."""
    whole = framed(records(images, labels))
    with whole_folder(folder) as made:
        whole.tofile(made / NAME)


def framed(content: np.ndarray) -> np.ndarray:
    """Each row as a record of a file: uint8 [N, L] to uint8 [N, L + 16]."""
    length = np.array([content.shape[1]], "<u8").view(np.uint8)
    head = np.concatenate([length, masked_crc(length[None]).view(np.uint8)])
    whole = np.empty((len(content), HEAD + content.shape[1] + TAIL), np.uint8)
    whole[:, :HEAD] = head
    whole[:, HEAD:-TAIL] = content
    whole[:, -TAIL:] = masked_crc(content).view(np.uint8).reshape(-1, TAIL)
    return whole


def masked_crc(rows: np.ndarray) -> np.ndarray:
    """The CRC-32C of each row, masked as TFRecord has it; uint8 [N, length] to uint32 [N].

    All rows advance together, byte by byte.
    """
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(CASTAGNOLI), table >> 1)
    crc = np.full(len(rows), 0xFFFFFFFF, np.uint32)
    for column in np.ascontiguousarray(rows.T):
        crc = table[(crc ^ column) & 0xFF] ^ (crc >> 8)
    crc = ~crc
    return ((crc >> 15) | (crc << 17)) + np.uint32(0xA282EAD8)


class Stream(Indexed):
    """Iterates in large reads; finds single records by an index made when the first is asked for.

    Checksums are not checked.
    """

    def __init__(self, folder: Path):
        super().__init__(Path(folder) / NAME)

    def __iter__(self) -> Iterator[Sample]:
        with open(self._path, "rb", buffering=BUFFER) as file:
            while head := file.read(HEAD):
                (size,) = struct.unpack_from("<Q", head)
                yield sample(file.read(size))
                file.read(TAIL)

    def _find_places(self) -> list[tuple[int, int]]:
        places, offset = [], 0
        with open(self._path, "rb", buffering=0) as file:
            while head := file.read(HEAD):
                (size,) = struct.unpack_from("<Q", head)
                places.append((offset + HEAD, size))
                offset = file.seek(offset + HEAD + size + TAIL)
        return places
