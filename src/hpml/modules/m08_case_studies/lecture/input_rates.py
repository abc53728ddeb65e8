"""How many images/s of 224×224 pixels come in here: by loader, by format, and from a cold disk.

JPEG files are what data sets come as: an open, a read, a decoding and a resize for each image.
Packed are the pixels that come out of that, in one file, mapped into memory: more bytes, and no
decoding.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image  # Pillow: matplotlib brings it

from hpml.data import photos
from hpml.data.cifar10 import Split
from hpml.machine.page_cache import drop
from hpml.measure.loaders import Vectorised, one_by_one, one_thread

SIDE = 224  # pixels: what networks for ImageNet take
PHOTO = 480  # pixels of a photo before it is resized
ONE_BY_ONE, BY_BATCH = LOADERS = ("image by image", "by batch")
FILES, PACKED = KEPT = ("JPEG files", "packed pixels")
PACK = "images.bin"
BATCH = 64


@dataclass(frozen=True)
class InputRates:
    """Images/s: `loading` of one core, by (loader, format), from the kernel's cache; `disk` of
    reading alone, by format, one image after the other in random order.

    `nbytes` are those of an image in each format. `cold`: the kernel could be made to forget what
    it had of the files, so that `disk` is one.
    """

    nbytes: Mapping[str, float]
    loading: Mapping[tuple[str, str], float]
    disk: Mapping[str, float]
    cold: bool


@dataclass(frozen=True)
class Photos:
    """JPEG files, read like an array of pixels [N, 3, side, side]: indices give a batch."""

    files: Sequence[Path]
    side: int

    def __getitem__(self, index: int | np.ndarray) -> np.ndarray:
        """uint8 [3, side, side], or [n, 3, side, side] for n indices."""
        if np.ndim(index):
            return np.stack([self[int(one)] for one in np.asarray(index)])
        with Image.open(self.files[int(index)]) as photo:
            size = (self.side, self.side)
            pixels = photo.convert("RGB").resize(size, Image.Resampling.BILINEAR)
        return np.moveaxis(np.asarray(pixels), -1, 0)


@dataclass(frozen=True)
class Labelled:
    """Images with their labels, one at a time: what `hpml.measure.loaders.OneByOne` reads."""

    images: Photos | np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        return self.images[index], int(self.labels[index])


def measure(
    folder: Path, images: int = 128, side: int = SIDE, photo: int = PHOTO, rounds: int = 3
) -> InputRates:
    """Make `images` photos of `photo`² pixels in `folder`, keep them in both formats, load them.

    The photos are random colours, enlarged, so that they are the same everywhere. Loaders take
    turns, and the quickest of `rounds` passes counts, in processor time of one thread. Reading from
    the disk is timed by the clock.
    """
    random = np.random.default_rng(0)
    labels, order = np.zeros(images, np.int64), random.permutation(images)
    colours = random.integers(0, 256, (images, 3, 32, 32), np.uint8)
    split = Split(colours, labels)  # type: ignore[arg-type]  # an array will do
    files = photos.write(split, folder / FILES, images, photo)
    shape, pack = (3, side, side), folder / PACKED / PACK
    pack.parent.mkdir()
    decoded = Photos(files, side)
    with open(pack, "wb") as file:
        for index in range(images):
            np.ascontiguousarray(decoded[index]).tofile(file)
    nbytes = {FILES: sum(one.stat().st_size for one in files) / images, PACKED: float(3 * side**2)}
    disk, cold = _disk(folder, files, pack, shape, order)
    loading = _loading({FILES: decoded, PACKED: _mapped(pack, shape)}, labels, order, rounds)
    return InputRates(nbytes, loading, disk, cold)


def _disk(
    folder: Path, files: Sequence[Path], pack: Path, shape: tuple[int, ...], order: np.ndarray
) -> tuple[dict[str, float], bool]:
    """Images/s of reading, by format, the quicker of two passes; whether the cache was cold."""
    seconds, left = dict.fromkeys(KEPT, np.inf), 0.0
    for again in range(2):
        for name in KEPT:
            left = max(left, drop(folder / name, written=not again))
            began = time.perf_counter()
            mapped = _mapped(pack, shape) if name == PACKED else None
            for index in order.tolist():
                files[index].read_bytes() if mapped is None else mapped[index].copy()
            del mapped  # a file that is mapped keeps its pages
            seconds[name] = min(seconds[name], time.perf_counter() - began)
    return {name: len(order) / taken for name, taken in seconds.items()}, left == 0.0


def _loading(
    images: Mapping[str, Photos | np.ndarray], labels: np.ndarray, order: np.ndarray, rounds: int
) -> dict[tuple[str, str], float]:
    loaders: dict[tuple[str, str], Iterable[Any]] = {}
    for name, opened in images.items():
        samples = Labelled(opened, labels)
        loaders[ONE_BY_ONE, name] = one_by_one(samples, order.tolist(), BATCH, workers=0)
        split = Split(opened, labels)  # type: ignore[arg-type]  # read like mapped images
        loaders[BY_BATCH, name] = Vectorised(split, order, BATCH)
    taken = dict.fromkeys(loaders, np.inf)
    with one_thread():
        for _ in range(rounds):
            for key, loader in loaders.items():
                began = time.process_time()
                for _ in loader:
                    pass
                taken[key] = min(taken[key], time.process_time() - began)
    return {key: len(labels) / seconds for key, seconds in taken.items()}


def _mapped(pack: Path, shape: tuple[int, ...]) -> np.ndarray:
    return np.memmap(pack, np.uint8, mode="r").view(np.ndarray).reshape(-1, *shape)


def lines(rates: InputRates) -> Iterator[str]:
    """The rates as a small table, a line for each format."""
    reading = "reading, disk" if rates.cold else "reading, memory"
    yield f"{'images/s':13}  {ONE_BY_ONE:>16}  {BY_BATCH:>16}  {reading:>16}  kB each"
    for name in KEPT:
        found = [rates.loading[loader, name] for loader in LOADERS] + [rates.disk[name]]
        rates_text = "  ".join(f"{rate:16,.0f}" for rate in found)
        yield f"{name:13}  {rates_text}  {rates.nbytes[name] / 1e3:7.0f}"
