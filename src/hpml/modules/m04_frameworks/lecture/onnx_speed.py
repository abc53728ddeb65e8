"""Images per second forward: PyTorch eager, in both layouts, and ONNX Runtime; one thread each."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import nn

from hpml.measure.clock import with_threads
from hpml.measure.gain import Gain
from hpml.modules.m04_frameworks.lecture.onnx_export import IMAGES

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from onnxruntime import InferenceSession

EAGER, CHANNELS_LAST, RUNTIME = "PyTorch eager", "PyTorch eager, channels_last", "ONNX Runtime"
BATCHES = (1, 64)
ROUNDS = 7
SHORTEST = 0.04  # seconds of one timing, at least
CLEAR = 1.1  # times as fast


class Gains(NamedTuple):
    """How many times as fast: the runtime with few images, beside PyTorch in its usual layout and
    in channels_last; with many, that layout alone, and the runtime beside it. Held if both gain,
    and the runtime gains more with few images."""

    held: bool
    alone: Gain
    fair_few: Gain
    layout: Gain
    fair_many: Gain


@dataclass(frozen=True)
class Speeds:
    """Milliseconds of one forward pass by batch size and way, a value for each round.

    `processor` is the time that the thread computed, which other programs do not lengthen as much
    as `wall`, the clock's.
    """

    processor: Mapping[int, Mapping[str, Sequence[float]]]
    wall: Mapping[int, Mapping[str, Sequence[float]]]

    def gain(self, batch: int, way: str, base: str = EAGER) -> Gain:
        """How many times as fast as `base`, by processor time."""
        taken = self.processor[batch]
        return Gain(tuple(taken[base]), tuple(taken[way]))

    def __str__(self) -> str:
        lines = [f"{'':14}{'':30}{'processor':>12}{'wall clock':>14}{'gain':>9}"]
        for batch, ways in self.processor.items():
            for way, taken in ways.items():
                wall = statistics.median(self.wall[batch][way])
                lines.append(
                    f"{_images(batch):14}{way:30}{statistics.median(taken):9.2f} ms{wall:11.2f} ms"
                    f"{self.gain(batch, way).factor:8.2f}×"
                )
        return "\n".join(lines)

    @property
    def gains(self) -> Gains:
        """Of ONNX Runtime and of the layout, with few and with many images."""
        few, many = min(self.processor), max(self.processor)
        alone, layout = self.gain(few, RUNTIME), self.gain(many, CHANNELS_LAST)
        fair_few, fair_many = (self.gain(n, RUNTIME, CHANNELS_LAST) for n in (few, many))
        held = min(alone.factor, layout.factor) > CLEAR and fair_few.factor > fair_many.factor
        return Gains(held, alone, fair_few, layout, fair_many)


def compare(
    network: nn.Module,
    running: "InferenceSession",
    batches: Sequence[int] = BATCHES,
    rounds: int = ROUNDS,
) -> Speeds:
    """Time each way in `rounds` rounds, in which they take turns, on one thread each."""
    last = deepcopy(network).to(memory_format=torch.channels_last)
    processor: dict[int, dict[str, list[float]]] = {}
    wall: dict[int, dict[str, list[float]]] = {}
    with with_threads(1), torch.inference_mode():
        for batch in batches:
            ways = _ways(network, last, running, batch)
            repeats = {way: _repeats(work) for way, work in ways.items()}
            for turn in range(rounds):
                # The order changes, so that no way always follows the same one.
                order = list(ways) if turn % 2 == 0 else list(ways)[::-1]
                for way in order:
                    own, clock = _timed(ways[way], repeats[way])
                    processor.setdefault(batch, {w: [] for w in ways})[way].append(1e3 * own)
                    wall.setdefault(batch, {w: [] for w in ways})[way].append(1e3 * clock)
    return Speeds(processor, wall)


def speeds_picture(speeds: Speeds, title: str) -> "Figure":
    """Images per second of processor time, as bars: a panel for each batch size."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(
        1, len(speeds.processor), figsize=(8, 2.2), sharey=True, layout="constrained"
    )
    for panel, (batch, ways) in zip(panels, speeds.processor.items(), strict=True):
        rates = [1e3 * batch / statistics.median(taken) for taken in ways.values()]
        bars = panel.barh(list(ways), rates, color=["#c7cfd8", "#7f93a8", "#1f4e79"])
        panel.bar_label(bars, [f" {rate:,.0f}" for rate in rates])
        panel.margins(x=0.2)
        panel.set_title(f"batches of {_images(batch)}", fontsize=10)
        panel.set_xlabel("images per second of processor time")
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].invert_yaxis()
    figure.suptitle(title)
    return figure


def _ways(
    network: nn.Module, last: nn.Module, running: "InferenceSession", batch: int
) -> dict[str, Callable[[], object]]:
    images = torch.randn(batch, 3, 32, 32, generator=torch.Generator().manual_seed(batch))
    ordered = images.contiguous(memory_format=torch.channels_last)
    given = {IMAGES: images.numpy()}
    return {
        EAGER: lambda: network(images),
        CHANNELS_LAST: lambda: last(ordered),
        RUNTIME: lambda: running.run(None, given),
    }


def _repeats(work: Callable[[], object]) -> int:
    """How many runs of `work` take SHORTEST seconds, after a first one that is not counted."""
    work()
    _, once = _timed(work, 1)
    return max(1, round(SHORTEST / once))


def _timed(work: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Seconds of one run: of this thread's processor time, and of the clock."""
    clock, own = time.perf_counter(), time.thread_time()
    for _ in range(repeats):
        work()
    return (time.thread_time() - own) / repeats, (time.perf_counter() - clock) / repeats


def _images(number: int) -> str:
    return f"{number} image{'s' * (number > 1)}"
