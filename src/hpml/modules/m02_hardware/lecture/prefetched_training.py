"""A small network trained from image files that have to come from the disk, read ahead and not."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from hpml.data import augment, normalize
from hpml.data.formats import FORMATS
from hpml.machine.page_cache import drop
from hpml.measure.loaders import Batch, one_thread
from hpml.modules.m02_hardware.lecture.prefetching import Span, step_seconds, steps

CLOSE = 0.15  # of a step without prefetching: medians of different steps differ by as much


def train(
    folder: Path,
    batch_size: int,
    batches: int = 10,
    ahead: Sequence[int] = (0, 1),
    turns: int = 3,
) -> dict[int, list[Span]]:
    """`batches` steps with each number of batches read `ahead`; the quickest of its `turns`.

    `folder` holds files that hpml.data.formats.files has written. Before each turn they are dropped
    from the cache. Torch has one thread for reading and one for computing. Turns alternate, so that
    other work on the machine meets all alike.
    """
    read, learn = parts(folder, batch_size)
    done: dict[int, list[list[Span]]] = {number: [] for number in ahead}
    drop(folder)
    with one_thread():
        learn(read(0))  # the first step has one-off costs
        for _ in range(turns):
            for number in ahead:
                drop(folder, written=False)
                done[number].append(steps(read, learn, batches, number))
    return {number: min(taken, key=step_seconds) for number, taken in done.items()}


def parts(folder: Path, batch_size: int) -> tuple[Callable[[int], Batch], Callable[[Batch], None]]:
    """Read batch number n from the files in `folder`, from the start again after the last; learn.

    The network is small: two convolutions, chosen to take about as long as reading.
    """
    files = FORMATS["files"].open(folder)
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(16 * 14 * 14, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)

    def read(number: int) -> Batch:
        start = number * batch_size
        samples = [files[index % len(files)] for index in range(start, start + batch_size)]
        pixels = torch.from_numpy(np.stack([image for image, _ in samples]))
        return normalize(augment(pixels)), torch.tensor([label for _, label in samples])

    def learn(batch: Batch) -> None:
        pixels, targets = batch
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(pixels), targets).backward()
        optimizer.step()

    return read, learn


def saves_the_shorter(alone: float, together: float, parts: Mapping[str, float]) -> bool:
    """Whether prefetching saves the shorter part, and so much that it shows.

    Milliseconds: of a step without and with prefetching, and of reading and computing. All are
    medians, and no two of them of the same steps: alike means here within CLOSE of a whole step.
    """
    saved = alone - together
    return together < 0.9 * alone and abs(saved - min(parts.values())) <= CLOSE * alone
