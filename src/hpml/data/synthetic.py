"""Images for machines without CIFAR-10: ten shapes, in the file format of CIFAR-10.

Each image shows one of ten shapes somewhere, in some size, tilt and colour, over a shaded, noisy
background. Four in five are lighter than what is behind them and one in five is darker, so a linear
classifier learns something, and stays far from a network that finds edges and corners anywhere.
Every shape looks the same in a mirror, so that flips leave the class as it was.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from hpml.data.checksum import write_sums
from hpml.data.cifar10 import BINARY, NAMES, RECORDS_PER_FILE, SYNTHETIC, TEST, TRAIN
from hpml.data.mapped import RECORD
from hpml.files.atomic import whole_folder
from hpml.paths import home

Shape = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _disc(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.hypot(y, x) - 1


def _ring(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.abs(np.hypot(y, x) - 0.8) - 0.2


def _square(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.maximum(np.abs(y), np.abs(x)) - 0.9


def _diamond(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    return (np.abs(y) + np.abs(x)) / np.sqrt(2) - 0.85


def _plus(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.maximum(np.minimum(np.abs(y), np.abs(x)) - 0.25, _square(y, x))


def _cross(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    return _plus((y + x) / np.sqrt(2), (y - x) / np.sqrt(2))


def _peak(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.maximum(y - 0.8, (2 * np.abs(x) - y - 1) / np.sqrt(5))


def _valley(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    return _peak(-y, x)


def _bars(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.maximum(np.abs(np.mod(1.5 * y, 1) - 0.5) / 1.5 - 0.16, _square(y, x))


def _pillars(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    return _bars(x, y)


# Class name: below 0 inside the shape, above 0 outside, for points in units of its radius; y points
# down. Each is even in x.
SHAPES: dict[str, Shape] = {
    "disc": _disc,
    "ring": _ring,
    "square": _square,
    "diamond": _diamond,
    "plus": _plus,
    "cross": _cross,
    "peak": _peak,
    "valley": _valley,
    "bars": _bars,
    "pillars": _pillars,
}
DARKER = 0.2
SEED = 10
NOTE = """\
These files are in the format of CIFAR-10, and are not CIFAR-10: the images are generated, ten
shapes on shaded backgrounds. Whatever is measured on them is measured on SYNTHETIC images.
"""


def ensure() -> Path:
    """The folder with the generated files; they are written (4 s) when they are not there yet.

    60,000 images in `HPML_HOME/data/synthetic/cifar-10-batches-bin`, with a file named SYNTHETIC
    that marks them. The draws are the same on every machine. Ranks may call it at the same time:
    each sees a whole folder or none.
    """
    target = home() / "data" / "synthetic" / BINARY
    if not target.is_dir():
        with whole_folder(target) as made:
            write(made)
    return target


def write(folder: Path, seed: int = SEED) -> None:
    """Write the data set into `folder`: six record files, the class names, the mark SYNTHETIC."""
    for number, name in enumerate((*TRAIN, *TEST)):
        records(np.random.default_rng((seed, number)), RECORDS_PER_FILE).tofile(folder / name)
    (folder / NAMES).write_text("\n".join(SHAPES) + "\n")
    (folder / SYNTHETIC).write_text(NOTE)
    write_sums(folder, (*TRAIN, *TEST, NAMES))


def records(generator: np.random.Generator, count: int) -> np.ndarray:
    """`count` records in random order, as many of each class as of any other: uint8 [count, 3073].

    Raises ValueError when ten classes do not share `count` evenly.
    """
    if count % 10:
        raise ValueError(f"{count} images do not divide evenly among 10 classes")
    each = count // 10
    out = np.empty((10, each, RECORD), np.uint8)
    for label, shape in enumerate(SHAPES.values()):
        out[label, :, 0] = label
        for start in range(0, each, 100):  # working arrays that fit the cache: three times faster
            part = out[label, start : start + 100, 1:]
            part[:] = _draw(generator, len(part), shape).reshape(part.shape)
    return generator.permutation(out.reshape(count, RECORD))


def _draw(generator: np.random.Generator, count: int, shape: Shape) -> np.ndarray:
    """`count` images of one shape, uint8 [count, 3, 32, 32]."""

    def uniform(low: float, high: float, channels: int = 1) -> np.ndarray:
        return generator.uniform(low, high, (count, channels, 1, 1)).astype(np.float32)

    axis = np.linspace(-1, 1, 32, dtype=np.float32)
    down, right = axis[:, None], axis[None, :]
    size, tilt = uniform(0.35, 0.6), uniform(-0.2, 0.2)
    y, x = (down - uniform(-0.35, 0.35)) / size, (right - uniform(-0.35, 0.35)) / size
    y, x = np.cos(tilt) * y - np.sin(tilt) * x, np.sin(tilt) * y + np.cos(tilt) * x
    # The edge is a ramp about two pixels wide, as in a photograph.
    cover = np.clip(0.5 - 10 * size * shape(y, x), 0, 1)

    ground, contrast = uniform(0.3, 0.7, 3), uniform(0.1, 0.5, 3)
    darker = generator.random((count, 1, 1, 1)) < DARKER
    paint = ground + np.where(darker, -contrast, contrast)
    shade = uniform(-0.2, 0.2, 3) * down + uniform(-0.2, 0.2, 3) * right
    noise = generator.standard_normal((count, 3, 32, 32), dtype=np.float32) * uniform(0.05, 0.2)
    pixels = ground + shade + cover * (paint - ground) + noise
    return (255 * np.clip(pixels, 0, 1)).astype(np.uint8)
