"""CIFAR-10 on disk: its layout, and a check that it is complete.

The binary layout (https://www.cs.toronto.edu/~kriz/cifar.html): five files `data_batch_1.bin` to
`data_batch_5.bin` and `test_batch.bin` of 10,000 records each. A record is one label byte and 3072
pixel bytes: the red, the green and the blue plane of a 32×32 image, row by row.
`batches.meta.txt` has the ten class names, one to a line. The training files hold 5,000 images of
each class between them, the test file 1,000.
"""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hpml.data.mapped import RECORD, MappedImages
from hpml.errors import UserError

CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
BINARY, PYTHON = "cifar-10-batches-bin", "cifar-10-batches-py"
TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST = ("test_batch.bin",)
NAMES = "batches.meta.txt"
SYNTHETIC = "SYNTHETIC"  # a file that marks generated images
CONVERTED = "CONVERTED"  # a file that marks a copy of the python layout
RECORDS_PER_FILE = 10_000


@dataclass(frozen=True)
class Split:
    """The training or the test images: `images` uint8 [N, 3, 32, 32], `labels` int64 [N]."""

    images: MappedImages
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Data:
    """A data set and its origin.

    `folder` holds the files that are mapped; `source` is where they came from (another folder if
    the python layout was converted), `layout` that source's layout, "binary" or "python".
    `synthetic` is true for generated images; show `describe()` wherever a number made from them is
    shown.
    """

    train: Split
    test: Split
    classes: tuple[str, ...]
    folder: Path
    source: Path
    layout: str
    synthetic: bool

    def describe(self) -> str:
        """What the images are and where, in words."""
        if self.synthetic:
            return f"SYNTHETIC images (generated, not CIFAR-10), from {self.source}"
        return f"real CIFAR-10, {self.layout} layout, from {self.source}"


def open_binary(folder: Path) -> Data:
    """Map the binary layout in `folder`; check sizes, labels, counts and class names (10 ms).

    Raises UserError, in one line with file, finding and remedy, for the first fault.
    """
    synthetic = (folder / SYNTHETIC).exists()
    for name in (*TRAIN, *TEST):
        check_size(folder / name)
    classes = read_classes(folder)
    if not synthetic and classes != CLASSES:
        raise UserError(
            f"cifar10: {folder / NAMES} names {' '.join(classes)}, "
            f"expected {' '.join(CLASSES)}: this is not CIFAR-10; see ./hpml data"
        )
    train, test = _split(folder, TRAIN), _split(folder, TEST)
    return Data(train, test, classes, folder, folder, "binary", synthetic)


def check_size(path: Path) -> None:
    """Raise UserError when a record file is missing, misnamed, truncated or oversized."""
    expected = RECORDS_PER_FILE * RECORD
    if not path.is_file():
        others = _names(path.parent) - {*TRAIN, *TEST}
        near = difflib.get_close_matches(path.name, others, n=1, cutoff=0.7)
        mend = f"rename {near[0]} if that is it, or run ./hpml data" if near else "run ./hpml data"
        raise UserError(f"cifar10: {path.name} is missing from {path.parent}: {mend}")
    size = path.stat().st_size
    if size != expected:
        raise UserError(
            f"cifar10: {path} is {size} bytes, expected {expected}: {remedy(path.parent)}"
        )


def read_classes(folder: Path) -> tuple[str, ...]:
    """The ten class names of `batches.meta.txt`. Raises UserError when it does not hold ten."""
    path = folder / NAMES
    try:
        lines = path.read_text(encoding="utf-8").split()
    except FileNotFoundError:
        raise UserError(f"cifar10: {NAMES} is missing from {folder}: run ./hpml data") from None
    except UnicodeDecodeError:
        lines = []
    if len(lines) != 10:
        raise UserError(
            f"cifar10: {path} holds {len(lines)} class names, expected 10: {remedy(folder)}"
        )
    return tuple(lines)


def _split(folder: Path, files: Iterable[str]) -> Split:
    files = tuple(files)
    images = MappedImages([folder / name for name in files])
    labels = images.labels()
    if labels.max() > 9:
        row = int(np.argmax(labels > 9))
        path = folder / files[row // RECORDS_PER_FILE]
        raise UserError(
            f"cifar10: {path} has label {labels[row]} in record {row % RECORDS_PER_FILE}, "
            f"expected 0 to 9: {remedy(folder)}"
        )
    count, expected = np.bincount(labels, minlength=10), len(labels) // 10
    if (count != expected).any():
        odd = int(np.argmax(count != expected))
        where = folder / (files[0] if len(files) == 1 else "data_batch_*.bin")
        raise UserError(
            f"cifar10: {where} has {count[odd]} images of class {odd}, expected {expected}: "
            f"{remedy(folder)}"
        )
    return Split(images, labels.astype(np.int64))


def remedy(folder: Path, culprit: str = "it") -> str:
    """How to mend a damaged file in `folder`."""
    for mark in (SYNTHETIC, CONVERTED):
        if (folder / mark).is_file():
            return f"delete {folder}, it is made again when needed"
    return f"delete {culprit} and run ./hpml data"


def _names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
