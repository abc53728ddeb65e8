"""One training step, slowed in five ways, and the counters by which they can be told apart.

Every way is planted as it happens in practice, and nothing is played by waiting. The counters are
the clock's, the kernel's (getrusage; /proc/self/task/*/schedstat, fields 2 and 3: nanoseconds for
which a thread could run and had no core, and how often it got one; Linux,
Documentation/scheduler/sched-stats.rst), and what is seen of the tensors that reach the
convolutions.
"""

import contextlib
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hpml.data import augment, batches, load, normalize
from hpml.machine.resources import usable_cores
from hpml.measure.clock import with_threads
from hpml.models.residual import ResidualNetwork

IMAGES = 32  # a batch
LARGE = 448  # pixels: the side to which the slow loader enlarges each image
PHASES = ("load", "forward", "backward", "update")
TASKS = Path("/proc/self/task")
CLEAR = 1.1  # times as slow: more than two measurements of the same differ
SPIN = """
import os, sys
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {int(sys.argv[1])})
parent = os.getppid()
while os.getppid() == parent:  # ends with the process that started it
    pass
"""


@dataclass(frozen=True)
class Counters:
    """Of one step. `seconds` by phase; `processor`: cores in use on average; `waiting`: the
    threads' seconds without a core, for each second, None where the kernel does not count them;
    `number`: bytes of a number that reaches a convolution; `stride`: how many numbers apart the
    channels of one pixel are, 1 where they lie side by side."""

    seconds: Mapping[str, float]
    processor: float
    waiting: float | None
    number: int
    stride: int
    waits: float | None = None  # how often in a step a thread got a core, None as above

    @property
    def whole(self) -> float:
        """Seconds of the step."""
        return sum(self.seconds.values())


@dataclass(frozen=True)
class Setting:
    """How a step is made. The defaults are those of a step that nothing slows."""

    one_by_one: bool = False
    threads: int = 0  # 0: one for each core
    dtype: torch.dtype = torch.float32
    layout: torch.memory_format = torch.channels_last
    neighbour: bool = False


@dataclass(frozen=True)
class Fault:
    """One way to slow a step: what was done, and what undoes it."""

    name: str
    done: str
    remedy: str
    setting: Setting


FAULTS = (
    Fault(
        "loader",
        f"images are enlarged to {LARGE} pixels, turned and shrunk, one by one",
        "work on whole batches, in other processes, before the step needs them",
        Setting(one_by_one=True),
    ),
    Fault(
        "threads",
        "OMP_NUM_THREADS=1, as torchrun sets it by itself",
        "a thread for each core that the rank has",
        Setting(threads=1),
    ),
    Fault(
        "precision",
        "images from NumPy are float64, and the network was made to follow",
        "float32, or bfloat16 where the hardware has it",
        Setting(dtype=torch.float64),
    ),
    Fault(
        "layout",
        "channels lie apart in memory, as PyTorch makes tensors by default",
        "`.to(memory_format=torch.channels_last)`, for network and images",
        Setting(layout=torch.contiguous_format),
    ),
    Fault(
        "neighbour",
        "another program computes on one of the cores",
        "a core of its own for each rank: binding, or an exclusive node",
        Setting(neighbour=True),
    ),
)


def diagnose(seen: Counters, sound: Counters) -> str:
    """The name of the fault that the counters speak for, beside those of a sound step.

    First what can be seen without a clock, then what the other counters say.
    """
    if seen.number > sound.number:
        return "precision"
    if seen.stride > sound.stride:
        return "layout"
    if seen.seconds["load"] > seen.whole / 3:
        return "loader"
    if (seen.waiting or 0) > (sound.waiting or 0) + 0.2:
        return "neighbour"
    return "threads" if seen.processor < 1.1 else "nothing"


class Beside(NamedTuple):
    """How often in a step a thread waits for a core that a neighbour has, and seconds of a wait."""

    waits: float
    seconds: float


class Found(NamedTuple):
    """The faults that the counters name, by letter, and how many of these are right; how many times
    as long as the sound step one takes, by fault, and how many are clearly slower.

    `held`: all are named, and all are slower but the layout, which may cost nothing: that is up to
    the library's kernels for this processor. `beside` is what the neighbour does, None where the
    counters do not show that it costs more than its core.
    """

    held: bool
    names: dict[str, str]
    right: int
    times: dict[str, float]
    slower: int
    beside: Beside | None


@dataclass(frozen=True)
class Trial:
    """`sound`: the step that nothing slows. `slowed`: the others, by letter, in a mixed order."""

    sound: Counters
    slowed: Mapping[str, tuple[Fault, Counters]]

    def __str__(self) -> str:
        head = "".join(f"{phase:>10}" for phase in PHASES)
        lines = [f"{'':7}{head}{'step':>10}{'cores':>8}{'waiting':>10}{'bytes':>8}{'stride':>8}"]
        rows = {"sound": self.sound} | {letter: seen for letter, (_, seen) in self.slowed.items()}
        return "\n".join(lines + [_row(name, counters) for name, counters in rows.items()])

    @property
    def answers(self) -> str:
        """A Markdown table: which was which, how slow it was, and what undoes it."""
        lines = ["| | fault | here | what was done | remedy |", "|---|---|---|---|---|"]
        for letter, (fault, seen) in self.slowed.items():
            times = f"{seen.whole / self.sound.whole:.1f} ×"
            lines.append(f"| {letter} | {fault.name} | {times} | {fault.done} | {fault.remedy} |")
        return "\n".join(lines)

    @property
    def found(self) -> Found:
        """Do the counters name each fault?"""
        names = {letter: diagnose(seen, self.sound) for letter, (_, seen) in self.slowed.items()}
        right = sum(names[letter] == fault.name for letter, (fault, _) in self.slowed.items())
        times = {fault.name: seen.whole / self.sound.whole for fault, seen in self.slowed.values()}
        slower = sum(ratio > CLEAR for ratio in times.values())
        held = right == len(names) and all(
            ratio > CLEAR for name, ratio in times.items() if name != "layout"
        )
        return Found(held, names, right, times, slower, self._neighbour())

    def _neighbour(self) -> Beside | None:
        beside = {fault.name: seen for fault, seen in self.slowed.values()}.get("neighbour")
        if beside is None or not beside.waits or beside.waiting is None:
            return None
        if beside.whole < 2 * CLEAR * self.sound.whole:
            return None
        return Beside(beside.waits, beside.waiting * beside.whole / beside.waits)


def measure(steps: int = 5, order: Sequence[int] = (3, 0, 4, 2, 1)) -> Trial:
    """Steps of the course's network, sound and with each fault: the quickest of `steps`.

    On a machine with one core the fault with the threads is left out: there it is none. `order`
    are the places of the faults in `FAULTS`, as they get their letters.
    """
    sound = _counters(Setting(), steps)
    faults = [FAULTS[place] for place in order]
    if usable_cores() < 2:
        faults = [fault for fault in faults if fault.name != "threads"]
    slowed = {
        chr(ord("A") + place): (fault, _counters(fault.setting, steps))
        for place, fault in enumerate(faults)
    }
    return Trial(sound, slowed)


def _counters(setting: Setting, steps: int) -> Counters:
    with contextlib.ExitStack() as held:
        held.enter_context(with_threads(setting.threads or max(1, int(usable_cores()))))
        if setting.neighbour:
            held.enter_context(_neighbour())
        seen = [*_steps(setting, steps)][1:]  # libraries choose and prepare in the first
    # The quickest, because what else runs on the machine only adds. Rates are means of all steps:
    # one is short for the kernel's clock.
    quick = min(seen, key=lambda one: one.whole)
    wall = sum(one.whole for one in seen)

    def mean(rates: Sequence[float]) -> float:
        return sum(rate * one.whole for rate, one in zip(rates, seen, strict=True)) / wall

    waited, waits = [one.waiting for one in seen], [one.waits for one in seen]
    return replace(
        quick,
        processor=mean([one.processor for one in seen]),
        waiting=None if None in waited else mean(waited),
        # For each second, as the waiting is, times the seconds of the quickest step.
        waits=None if None in waits else sum(waits) / wall * quick.whole,
    )


def _steps(setting: Setting, steps: int) -> Iterator[Counters]:
    torch.manual_seed(0)
    model = ResidualNetwork().to(dtype=setting.dtype, memory_format=setting.layout)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.85)
    number, stride = _watch(model)
    feed = batches(load().train, [*range(IMAGES * (steps + 1))], IMAGES)
    for images, labels in feed:
        processor, (waiting, runs), moments = time.process_time(), _waited(), [time.perf_counter()]
        pixels = _prepare(images, setting)
        moments.append(time.perf_counter())
        loss = F.cross_entropy(model(pixels), labels)
        moments.append(time.perf_counter())
        loss.backward()
        moments.append(time.perf_counter())
        optimizer.step()
        optimizer.zero_grad()
        moments.append(time.perf_counter())
        wall = moments[-1] - moments[0]
        now, runs_now = _waited()
        yield Counters(
            seconds={
                name: end - begin
                for name, begin, end in zip(PHASES, moments, moments[1:], strict=False)
            },
            processor=(time.process_time() - processor) / wall,
            waiting=None if waiting is None or now is None else (now - waiting) / wall,
            number=max(number),
            stride=max(stride),
            waits=None if runs is None or runs_now is None else runs_now - runs,
        )


def _prepare(images: Tensor, setting: Setting) -> Tensor:
    """uint8 [B, 3, 32, 32] to what the network takes."""
    images = augment(images)
    if setting.one_by_one:
        images = torch.stack([_there_and_back(image) for image in images])
    pixels = normalize(images, dtype=setting.dtype)
    return pixels.contiguous(memory_format=setting.layout)


def _there_and_back(image: Tensor) -> Tensor:
    """One image [3, 32, 32] enlarged, turned by up to 10 degrees, and shrunk."""
    large = F.interpolate(image[None].float(), size=LARGE, mode="bicubic", antialias=True)
    angle = math.radians(random.uniform(-10, 10))
    turn = [[math.cos(angle), -math.sin(angle), 0], [math.sin(angle), math.cos(angle), 0]]
    where = F.affine_grid(torch.tensor([turn]), [*large.shape], align_corners=False)
    turned = F.grid_sample(large, where, padding_mode="reflection", align_corners=False)
    small = F.interpolate(turned, size=image.shape[-1], mode="bicubic", antialias=True)
    return small[0].round().clamp(0, 255).to(image.dtype)


def _watch(model: nn.Module) -> tuple[list[int], list[int]]:
    """Bytes of a number, and the channels' stride, of what reaches each convolution."""
    number, stride = [], []

    def note(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        number.append(inputs[0].element_size())
        stride.append(inputs[0].stride(1))

    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_pre_hook(note)
    return number, stride


def _waited() -> tuple[float, int] | tuple[None, None]:
    """Seconds for which threads of this process could run and had no core, and how often they got
    one, all together."""
    waited = []
    for task in TASKS.glob("*/schedstat"):
        with contextlib.suppress(OSError):  # a thread has ended
            waited.append([int(number) for number in task.read_text().split()[1:3]])
    seconds, runs = map(sum, zip(*waited, strict=True)) if waited else (None, None)
    return (seconds / 1e9, runs) if waited else (None, None)


@contextlib.contextmanager
def _neighbour() -> Iterator[None]:
    """A program that computes on the first of the cores that this process may use."""
    core = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    program = subprocess.Popen([sys.executable, "-c", SPIN, str(core)], start_new_session=True)
    try:
        time.sleep(0.2)  # Python starts
        yield
    finally:
        program.send_signal(signal.SIGKILL)
        program.wait()


def _row(name: str, seen: Counters) -> str:
    parts = "".join(f"{seen.seconds[phase] * 1e3:7.1f} ms" for phase in PHASES)
    waiting = "–" if seen.waiting is None else f"{seen.waiting:.0%}"
    return (
        f"{name:7}{parts}{seen.whole * 1e3:7.1f} ms{seen.processor:8.2f}{waiting:>10}"
        f"{seen.number:8}{seen.stride:8}"
    )
