"""Exercise fix_the_loader's launches: epochs are loaded, steps are computed, and what each costs.

Costs are processor time, which the kernel counts of the whole rank: of all its threads, and of the
processes below it. Unlike seconds, it says what the work costs on a machine where others work too.
The parent logs it when a rank asks, at the beginning and the end of each phase. A file comes with
the request before it is loaded, so that nothing of it can be prepared.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from hpml.checks.contract import Stage
from hpml.checks.seeds import derived
from hpml.modules.m03_profiling.checks._slow_loader import SlowLoader
from hpml.ranks import Reply, Server, ask
from hpml.ranks.evidence import Evidence

FILE = "images.bin"
RECORD = 1 + 3 * 32 * 32  # bytes: a label, and the pixels of an image
ROUNDS = 3  # files, each loaded by a loader of its own
EPOCHS = 2  # of each file
BATCH = 32
SLOWLY = 6  # images of the files that the given loader loads


# Made in the parent


def new_file(number: int, seed: int) -> bytes:
    """Records of that many images, each with a label below 10 and random pixels."""
    draw = np.random.default_rng(seed)
    records = draw.integers(0, 256, (number, RECORD), dtype=np.uint8)
    records[:, 0] = draw.integers(0, 10, number)
    return records.tobytes()


def inputs(seed: int, world_size: int) -> dict[str, list[dict[str, Any]]]:
    """By stage: the files, the loaders' seeds and batch sizes, and one seed for the global
    generators (`noise`). One round has another batch size than a training step: an answer that
    does not look at what it is told is wrong there."""
    pick = random.Random(seed)
    number = 3 * BATCH + pick.randrange(5, BATCH - 5)  # the last batch is a short one
    seeds = [derived(seed, f"generator {place}") for place in range(ROUNDS)]
    other = next(size for size in pick.sample(range(20, 29), 9) if number % size)
    found: dict[str, list[dict[str, Any]]] = {}
    for stage, images in ((LOADED, number), (GIVEN, SLOWLY)):
        files = [new_file(images, derived(seed, f"{stage} {place}")) for place in range(ROUNDS)]
        noise = derived(seed, f"noise {stage}")
        sizes = [BATCH, other, BATCH]
        found[stage] = [{"files": files, "seeds": seeds, "noise": noise, "sizes": sizes}]
    return found


def served(ranks: Sequence[dict[str, Any]]) -> tuple[Sequence[Any], Server]:
    """A stage's `serve`: a rank gets its files one by one, and asks in this order alone."""
    (given,) = ranks
    order = [
        *[phase for _ in given["files"] for phase in ("train", "file", "load", "loaded")],
        "end",
    ]
    files = iter(given["files"])
    place = 0

    def serve(rank: int, request: Any) -> list[Reply]:
        nonlocal place
        if place == len(order) or request != order[place]:
            raise ValueError("that is not served now")
        place += 1
        return [Reply(rank, next(files) if request == "file" else None)]

    return [{name: given[name] for name in ("seeds", "sizes", "noise")}], serve


# In a rank


class Training:
    """Steps of a small convolutional network on images of its own."""

    def __init__(self) -> None:
        draw = torch.Generator().manual_seed(0)
        self.images = torch.randn(BATCH, 3, 32, 32, generator=draw)
        self.labels = torch.randint(0, 10, (BATCH,), generator=draw)
        layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, padding=1), nn.ReLU()]
        for _ in range(3):
            layers += [nn.Conv2d(16, 16, 3, padding=1), nn.ReLU()]
        layers += [nn.MaxPool2d(4), nn.Flatten(), nn.Linear(16 * 8 * 8, 10)]
        self.model = nn.Sequential(*layers)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def step(self) -> None:
        self.optimizer.zero_grad()
        functional.cross_entropy(self.model(self.images), self.labels).backward()
        self.optimizer.step()


def frozen(batch: Any) -> list[Any]:
    """A batch as it is now: what its tensors become later does not count."""
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        return [type(batch).__name__]
    return [
        item.clone() if isinstance(item, torch.Tensor) else type(item).__name__ for item in batch
    ]


def epoch_of(loader: Any, limit: int) -> list[list[Any]]:
    """The batches of an epoch; an endless one is cut."""
    batches = []
    for batch in loader:
        batches.append(frozen(batch))
        if len(batches) == limit:
            break
    return batches


def all_epochs(make: Any, inputs: dict[str, Any]) -> list[list[list[list[Any]]]]:
    """By round and epoch, the batches of loaders that `make(path, batch_size, generator)` made."""
    training = Training()
    training.step()  # not counted: it sets up what later steps use again
    rounds = []
    for place, (seed, size) in enumerate(zip(inputs["seeds"], inputs["sizes"], strict=True)):
        ask("train")
        training.step()
        content = ask("file")
        Path(FILE).write_bytes(content)
        limit = 2 * len(content) // RECORD
        torch.manual_seed(inputs["noise"] + place)
        ask("load")
        loader = make(FILE, size, torch.Generator().manual_seed(seed))
        rounds.append([epoch_of(loader, limit) for _ in range(EPOCHS)])
        ask("loaded")
    return rounds


def load(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """All rounds, and the last one's first epoch by another loader with an equal generator, while
    the global generators have other states."""
    rounds = all_epochs(answer.Loader, inputs)
    torch.manual_seed(inputs["noise"] + ROUNDS)
    np.random.seed(inputs["noise"] % 2**32)
    random.seed(inputs["noise"])
    again = answer.Loader(
        FILE, inputs["sizes"][-1], torch.Generator().manual_seed(inputs["seeds"][-1])
    )
    found = {"rounds": rounds, "again": epoch_of(again, 2 * len(rounds[-1][0]))}
    ask("end")
    return found


def load_slowly(inputs: dict[str, Any]) -> None:
    """The same with the given loader, without an answer."""
    all_epochs(SlowLoader, inputs)


LOADED, GIVEN = "load", "the loader as given"
STAGES = (
    Stage(GIVEN, load_slowly, serve=served, looks=True, with_answer=False),
    Stage(LOADED, load, serve=served, looks=True, opens=(FILE,)),
)


# What was counted


@dataclass(frozen=True)
class Cost:
    """Seconds of processor time for one image, the least of all rounds."""

    loading: float
    training: float

    @property
    def share(self) -> float:
        """Of loading, in a step: between 0 and 1."""
        return self.loading / (self.loading + self.training)


def cost(evidence: Evidence, images: int) -> Cost | None:
    """Of a launch whose files have so many images; None where the kernel's count is missing.

    What else a machine does can only add to a count, by what it leaves of the caches: so the least
    of all rounds is the best estimate.
    """
    counts = [asked.counts for asked in evidence.ranks[0].asked if not asked.refused]
    times = [None if one is None else one.processor_seconds for one in counts]
    if len(times) < 4 * ROUNDS or None in times:
        return None
    phases = np.array(times[: 4 * ROUNDS], dtype=float).reshape(ROUNDS, 4)
    train, file, begin, end = phases.T
    return Cost(
        loading=float((end - begin).min()) / (EPOCHS * images),
        training=float((file - train).min()) / BATCH,
    )


def overall(evidence: Evidence, images: int, training: float) -> float | None:
    """Seconds of processor time that a launch of the answer used for each loaded image, whenever it
    used them, besides its steps of `training` seconds for an image.

    An estimate with the noise of everything else. But nothing can be put off until it is not
    counted, or hidden in a step.
    """
    counts = [asked.counts for asked in evidence.ranks[0].asked if not asked.refused]
    times = [None if one is None else one.processor_seconds for one in counts]
    if len(times) != 4 * ROUNDS + 1 or None in times:
        return None
    used = times[-1] - times[0] - ROUNDS * BATCH * training
    return used / ((ROUNDS * EPOCHS + 1) * images)


def opens(evidence: Evidence) -> int | None:
    """How often the answer's loaders opened their files, the most of all rounds; None where this
    machine does not report it."""
    counts = [asked.counts for asked in evidence.ranks[0].asked if not asked.refused]
    seen = [None if one is None else one.opened for one in counts]
    if len(seen) < 4 * ROUNDS or None in seen:
        return None
    pairs = zip(seen[2::4], seen[3::4], strict=False)
    return max(after.get(FILE, 0) - before.get(FILE, 0) for before, after in pairs)
