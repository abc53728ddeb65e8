"""CIFAR-10 as one small file, for a machine that has nothing but torch and numpy.

A codec as JPEG's, without its entropy coding, which would need a decoder: YCbCr with half as many
chroma samples each way, the cosine transform of 8×8 blocks, each coefficient divided by JPEG's
tables at quality 75 and rounded (ITU-T T.81, annex K; Independent JPEG Group, jcparam.c), then
LZMA. 60,000 images take 17 MB. Images that were JPEG files of that quality come back as they were
but for rounding; others lose what such a file loses.
"""

import hashlib
import json
import lzma
import zipfile
from pathlib import Path

import numpy as np

from hpml.data import CLASSES, load
from hpml.data.cifar10 import BINARY, NAMES, RECORDS_PER_FILE, TEST, TRAIN
from hpml.errors import UserError
from hpml.files import atomic
from hpml.paths import home

PACKED = "packed-"  # begins the name of a folder with what was unpacked
LARGEST = 40 * 2**20  # bytes
CHUNK = 2_000  # images at a time: each takes 24 KiB as float64
QUALITY = 75

# fmt: off
LUMINANCE = (
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55,
    14, 13, 16, 24, 40, 57, 69, 56, 14, 17, 22, 29, 51, 87, 80, 62,
    18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92,
    49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
)
CHROMINANCE = (
    17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99,
    24, 26, 56, 99, 99, 99, 99, 99, 47, 66, 99, 99, 99, 99, 99, 99,
    *(99,) * 32,
)
# fmt: on
TABLES = [
    np.clip((np.array(table).reshape(8, 8) * (200 - 2 * QUALITY) + 50) // 100, 1, 255)
    for table in (LUMINANCE, CHROMINANCE, CHROMINANCE)
]
TO_YCBCR = np.array(
    [[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]]
)
_k = np.arange(8)
COSINES = np.cos((2 * _k + 1) * _k[:, None] * np.pi / 16) / np.where(_k, 2, 8**0.5)[:, None]


def encode(pixels: np.ndarray) -> np.ndarray:
    """Coefficients int8 [N, 24, 8, 8] of pixels uint8 [N, 3, 32, 32]: 16 blocks of Y, 4 and 4."""
    planes = np.einsum("ij,njhw->inhw", TO_YCBCR, pixels.astype(np.float64))
    planes[0] -= 128
    found = []
    for plane, table in zip(planes, TABLES, strict=True):
        if table is not TABLES[0]:
            plane = plane.reshape(-1, 16, 2, 16, 2).mean((2, 4))
        across = plane.shape[1] // 8
        blocks = plane.reshape(-1, across, 8, across, 8).transpose(0, 1, 3, 2, 4)
        scaled = np.rint(COSINES @ blocks @ COSINES.T / table)
        found.append(np.clip(scaled, -128, 127).astype(np.int8).reshape(-1, across**2, 8, 8))
    return np.concatenate(found, 1)


def decode(coefficients: np.ndarray) -> np.ndarray:
    """Pixels uint8 [N, 3, 32, 32] of what `encode` returns."""
    planes = []
    parts = np.split(coefficients, (16, 20), axis=1)
    for part, table in zip(parts, TABLES, strict=True):
        across = int(part.shape[1] ** 0.5)
        blocks = COSINES.T @ (part * table) @ COSINES
        blocks = blocks.reshape(-1, across, across, 8, 8).transpose(0, 1, 3, 2, 4)
        plane = blocks.reshape(-1, 8 * across, 8 * across)
        planes.append(plane if table is TABLES[0] else _twice(_twice(plane, 1), 2))
    planes[0] = planes[0] + 128
    pixels = np.einsum("ij,jnhw->nihw", np.linalg.inv(TO_YCBCR), np.stack(planes))
    return np.clip(np.rint(pixels), 0, 255).astype(np.uint8)


def _twice(plane: np.ndarray, axis: int) -> np.ndarray:
    """Twice as many samples along an axis: each is 3/4 the nearest and 1/4 the next nearest, as
    libjpeg's h2v2_fancy_upsample has it."""
    count = plane.shape[axis]
    wide = np.concatenate([plane.take([0], axis), plane, plane.take([-1], axis)], axis)
    before, after = wide.take(range(count), axis), wide.take(range(2, count + 2), axis)
    pairs = np.stack([0.75 * plane + 0.25 * before, 0.75 * plane + 0.25 * after], axis + 1)
    shape = list(plane.shape)
    shape[axis] *= 2
    return pairs.reshape(shape)


def pack(place: str | None, target: Path) -> str:
    """Write the images in the folder `place` (None: as `hpml.data.load`) to one file.

    Returns a line about it. Raises UserError where there are none but generated ones, or the file
    would be larger than 40 MiB.
    """
    data = load(place)
    if data.synthetic:
        raise UserError("--pack: there are only SYNTHETIC images here: name a folder by --images")
    about: dict[str, float] = {"quality": QUALITY}
    off = []
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        atomic.replacing(target) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_LZMA) as archive,
    ):
        for name, split in (("train", data.train), ("test", data.test)):
            parts = []
            for start in range(0, len(split), CHUNK):
                pixels = split.images[start : start + CHUNK]
                parts.append(encode(pixels))
                off.append(np.abs(decode(parts[-1]).astype(int) - pixels).mean())
            # One kind of coefficient after the other: most are 0 everywhere.
            coefficients = np.concatenate(parts).transpose(2, 3, 1, 0)
            for what, array in (("coefficients", coefficients), ("labels", split.labels)):
                with archive.open(f"{name}_{what}.npy", "w") as member:
                    content = np.ascontiguousarray(array, np.int8)
                    np.lib.format.write_array(member, content, allow_pickle=False)
        about["mean_error"] = float(np.mean(off))
        archive.writestr("about.json", json.dumps(about))
        file.flush()
        if file.tell() > LARGEST:
            raise UserError(f"--pack: the file would be larger than {LARGEST / 2**20:.0f} MiB")
    return (
        f"{target}: {len(data.train) + len(data.test):,} images in "
        f"{target.stat().st_size / 2**20:.1f} MiB; "
        f"a pixel is {about['mean_error']:.2f} of 255 off on average"
    )


def folder(place: str) -> Path:
    """The folder with the images: `place` itself, or where the file `place` is unpacked, once.

    Raises UserError where the file is not one that `pack` wrote.
    """
    path = Path(place).expanduser().resolve()
    if not path.is_file():
        load(path)
        return path
    key = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    target = home() / "data" / f"{PACKED}{key}" / BINARY
    if target.is_dir():
        return target
    if not zipfile.is_zipfile(path):
        raise UserError(f"--images {path} is neither a folder nor a file of ./hpml record --pack")
    try:
        with np.load(path, allow_pickle=False) as archive, atomic.whole_folder(target) as made:
            for split, files in (("train", TRAIN), ("test", TEST)):
                labels = archive[f"{split}_labels"].astype(np.uint8)
                coefficients = archive[f"{split}_coefficients"].transpose(3, 2, 0, 1)
                for number, name in enumerate(files):
                    rows = slice(number * RECORDS_PER_FILE, (number + 1) * RECORDS_PER_FILE)
                    _write_records(made / name, coefficients[rows], labels[rows])
            (made / NAMES).write_text("\n".join(CLASSES) + "\n")
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, lzma.LZMAError) as error:
        raise UserError(
            f"--images {path} is not a file of ./hpml record --pack "
            f"({type(error).__name__}): make it again"
        ) from None
    return target


def packed(place: str) -> bool:
    """Whether the images in a folder came out of a file, as `folder` unpacks it."""
    return Path(place).parent.name.startswith(PACKED)


def _write_records(path: Path, coefficients: np.ndarray, labels: np.ndarray) -> None:
    with open(path, "wb") as file:
        for start in range(0, len(labels), CHUNK):
            pixels = decode(coefficients[start : start + CHUNK])
            ones = labels[start : start + CHUNK, None]
            file.write(np.concatenate([ones, pixels.reshape(len(pixels), -1)], 1).tobytes())
