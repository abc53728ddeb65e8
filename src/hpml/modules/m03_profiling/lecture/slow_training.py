"""The course's training with seven faults, each of them common, and a fix for each.

    python -m hpml.modules.m03_profiling.lecture.slow_training PHOTOS
    python -m hpml.modules.m03_profiling.lecture.slow_training PHOTOS --fix pack whole_batch

PHOTOS is a folder; JPEG files are written to it where it has none. Faults and fixes: `FIXES`. The
draws are the same in every version: all of them see the same pixels in the same order.
"""

import argparse
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.profiler import record_function

from hpml.data import augment, load, normalize, photos
from hpml.data.batches import MEAN, STD
from hpml.machine.resources import usable_cores
from hpml.measure.clock import with_threads
from hpml.models.residual import ResidualNetwork

PHOTOS = 128
BATCH = 32  # images of one update
TINY = 8  # images of one forward and backward
PAD = 2
COMPUTE = "forward and backward"


@dataclass(frozen=True)
class Fix:
    """What is wrong, what puts it right, and the part of a step that it is about."""

    part: str
    fault: str
    remedy: str


FIXES = {
    "pack": Fix(
        "loading",
        "each photo is opened, decoded and shrunk in every epoch, one at a time",
        "decoded once, into one array",
    ),
    "whole_batch": Fix(
        "transforms",
        "mirrored, shifted and normalised pixel by pixel, in Python's floats",
        "all images in one operation",
    ),
    "threads": Fix(COMPUTE, "twice as many threads as cores", "a thread for each core"),
    "one_batch": Fix(
        COMPUTE,
        f"{TINY} images at a time, gradients added up over {BATCH // TINY} of them",
        f"{BATCH} images at a time",
    ),
    "channels_last": Fix(COMPUTE, "contiguous layout", "channels_last"),
    "bfloat16": Fix(COMPUTE, "all in float32", "autocast to bfloat16"),
    "no_item": Fix("other", "loss.item() and a print after each backward", "read at the end"),
}


@dataclass(frozen=True)
class Training:
    """`losses` and `seconds` of each update: the mean loss of its images, its wall clock time."""

    losses: tuple[float, ...]
    seconds: tuple[float, ...]

    def __str__(self) -> str:
        return "\n".join(
            f"step {step}: {1e3 * seconds:6.0f} ms, {BATCH / seconds:5.0f} images/s"
            for step, seconds in enumerate(self.seconds)
        )


def train(
    folder: Path,
    fixes: Collection[str] = (),
    steps: int = 6,
    after_step: Callable[[], None] = lambda: None,
    report: Callable[[str], None] = lambda line: None,
) -> Training:
    """Train for `steps` updates on the photos in `folder`, with the fixes of these names.

    `after_step` is called after each update: a profiler's `step`. `report` gets each line that the
    script prints.
    """
    threads = max(1, int(usable_cores())) * (1 if "threads" in fixes else 2)
    with with_threads(threads):
        return _train(folder, frozenset(fixes), steps, after_step, report)


def _train(
    folder: Path,
    fixes: frozenset[str],
    steps: int,
    after_step: Callable[[], None],
    report: Callable[[str], None],
) -> Training:
    torch.manual_seed(0)
    layout = torch.channels_last if "channels_last" in fixes else torch.contiguous_format
    network = ResidualNetwork().to(memory_format=layout)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.85)
    source = Photos(folder, packed="pack" in fixes)
    draws = torch.Generator().manual_seed(1)
    losses, seconds = [], []
    for index in shuffled(PHOTOS, BATCH, steps):
        began = time.perf_counter()
        with record_function("loading"):
            images, labels = source.batch(index)
        with record_function("transforms"):
            if "whole_batch" in fixes:
                pixels = normalize(augment(images, draws, pad=PAD))
            else:
                pixels = pixel_by_pixel(images, draws)
            pixels = pixels.contiguous(memory_format=layout)
        total = torch.zeros(())
        size = BATCH if "one_batch" in fixes else TINY
        for part, targets in zip(pixels.split(size), labels.split(size), strict=True):
            with (
                record_function("forward"),
                torch.autocast("cpu", torch.bfloat16, enabled="bfloat16" in fixes),
            ):
                loss = F.cross_entropy(network(part), targets) * len(part) / BATCH
            with record_function("backward"):
                loss.backward()
            total += loss.detach()
            if "no_item" not in fixes:
                report(f"loss {loss.item() * BATCH / len(part):.3f}")
        with record_function("optimizer"):
            optimizer.step()
            optimizer.zero_grad()
        losses.append(total)
        seconds.append(time.perf_counter() - began)
        after_step()
    return Training(tuple(torch.stack(losses).tolist()), tuple(seconds))


class Photos:
    """The photos in `folder`, written there where they are missing, and their labels."""

    def __init__(self, folder: Path, packed: bool = False):
        split = load().train
        self._files = photos.write(split, Path(folder), PHOTOS)
        self._labels = torch.from_numpy(np.array(split.labels[:PHOTOS]))
        self._images = None
        if packed:
            file = self._files[0].with_name("packed.npy")
            found = np.load(file) if file.exists() else photos.pack(self._files, file)
            self._images = torch.from_numpy(found)

    def batch(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Images uint8 [B, 3, 32, 32] and labels int64 [B] at `index`."""
        if self._images is not None:
            return self._images[index], self._labels[index]
        decoded = [torch.from_numpy(photos.read(self._files[k])) for k in index.tolist()]
        return torch.stack(decoded), self._labels[index]


def shuffled(count: int, batch: int, steps: int) -> Iterator[Tensor]:
    """The indices of each batch: a new order in every epoch, the same in every version."""
    generator = torch.Generator().manual_seed(0)
    order = torch.cat([torch.randperm(count, generator=generator) for _ in range(steps)])
    return iter(order.split(batch)[:steps])


def pixel_by_pixel(images: Tensor, generator: torch.Generator) -> Tensor:
    """What normalize(augment(images, generator)) gives, from the same draws, in Python's floats."""
    shift = torch.randint(-PAD, PAD + 1, (2, len(images), 1), generator=generator).flatten(1)
    mirrored = torch.randint(0, 2, (len(images), 1), generator=generator).flatten()
    done = []
    for image, down, right, mirror in zip(
        images.tolist(), *shift.tolist(), mirrored.tolist(), strict=True
    ):
        channels = []
        for channel, mean, std in zip(image, MEAN, STD, strict=True):
            rows = []
            for row in range(len(channel)):
                line = channel[_reflected(row + down, len(channel))]
                pixels = []
                for column in range(len(line)):
                    place = column + right
                    if mirror:
                        place = len(line) - 1 - place
                    pixels.append((line[_reflected(place, len(line))] / 255 - mean) / std)
                rows.append(pixels)
            channels.append(rows)
        done.append(torch.tensor(channels))
    return torch.stack(done)


def _reflected(place: int, size: int) -> int:
    """Outside [0, size) folded back in at the edge pixel."""
    place = abs(place)
    return 2 * (size - 1) - place if place >= size else place


def main() -> None:
    """The script's command line."""
    parser = argparse.ArgumentParser("python -m hpml.modules.m03_profiling.lecture.slow_training")
    parser.add_argument("photos", type=Path, help="folder; photos are written where it has none")
    parser.add_argument("--fix", nargs="*", default=[], choices=FIXES, help="what is put right")
    parser.add_argument("--steps", type=int, default=6, help="updates")
    chosen = parser.parse_args()
    print(train(chosen.photos, chosen.fix, chosen.steps, report=print))


if __name__ == "__main__":
    main()
