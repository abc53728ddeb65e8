"""What torch.profiler costs the step that it watches.

The same training step without a profiler and in six ways with one. Time is the processor time of
the thread that trains, which is where records are made: what else the machine does is not in it,
but for the caches. Ways take turns, round by round, so that this meets all of them.
Small operators pay most, since a record is made for each operator, whatever it computes.
"""

import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule

from hpml.machine.freed_memory import keep_freed_memory
from hpml.measure.clock import with_threads

STEPS = 12  # timed in each turn, after one that is not
IMAGES, PIXELS = 8, 32
CPU = [ProfilerActivity.CPU]
# Active longer than any turn, so that all timed steps are recorded.
ACTIVE = {"schedule": schedule(wait=0, warmup=1, active=10**6)}

OFF = "no profiler"
WAYS: dict[str, dict[str, Any] | None] = {
    OFF: None,
    "outside its window": {"schedule": schedule(wait=10**6, warmup=1, active=1)},
    "recording": ACTIVE,
    "with shapes": ACTIVE | {"record_shapes": True},
    "with memory": ACTIVE | {"profile_memory": True},
    "with Python's stack": ACTIVE | {"with_stack": True},
    "with all three": ACTIVE | {"record_shapes": True, "profile_memory": True, "with_stack": True},
}


@dataclass(frozen=True)
class Overhead:
    """One way to profile: `seconds` are the processor's, of each round's quickest step."""

    way: str
    seconds: tuple[float, ...]
    off: tuple[float, ...]  # without a profiler, in the same rounds

    @property
    def ratio(self) -> float:
        """A profiled step over one without a profiler: of both the median over the rounds."""
        return statistics.median(self.seconds) / statistics.median(self.off)

    @property
    def spread(self) -> tuple[float, float]:
        """The smallest and the largest ratio of a round."""
        ratios = [with_one / off for with_one, off in zip(self.seconds, self.off, strict=True)]
        return min(ratios), max(ratios)


def measure(rounds: int = 5, step: Callable[[], object] | None = None) -> list[Overhead]:
    """The overhead of each of `WAYS`, in their order; one thread. A few seconds.

    `step` is what is profiled: by default the training step of a small convolutional network.

    From here on the process keeps the memory that it frees. Else glibc may give it back at each
    step, and a profiler's records may keep it from that: then the steps with a profiler are faster.
    """
    keep_freed_memory()
    with with_threads(1):
        step = step or training_step()
        step()
        taken: dict[str, list[float]] = {way: [] for way in WAYS}
        for _ in range(rounds):
            for way, options in WAYS.items():
                taken[way].append(_quickest_step(step, options))
    return [Overhead(way, tuple(taken[way]), tuple(taken[OFF])) for way in WAYS]


def training_step(images: int = IMAGES) -> Callable[[], object]:
    """One step of SGD on a batch of random images: the fewer, the smaller each operator."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(
            *(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(4)),
            *(nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(4)),
            *(nn.Flatten(), nn.Linear(256, 10)),
        )
        batch, labels = torch.randn(images, 3, PIXELS, PIXELS), torch.randint(10, (images,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(batch), labels).backward()
        optimizer.step()

    return step


def _quickest_step(step: Callable[[], object], options: dict[str, Any] | None) -> float:
    """Seconds of the processor for the quickest step in one turn, `prof.step()` included."""
    profiler = nullcontext() if options is None else profile(activities=CPU, **options)
    taken = []
    with profiler as running:
        for _ in range(STEPS + 1):
            began = time.thread_time()
            step()
            if running is not None:
                running.step()
            taken.append(time.thread_time() - began)
    return min(taken[1:])
