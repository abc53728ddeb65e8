"""Data parallel training on a few ranks, each with a profiler of its own; one may be slow.

What is computed is played by waiting, unless it is asked for in earnest: so there may be more ranks
than cores, and each has the seconds that it would have on a machine of its own.
"""

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hpml.errors import UserError
from hpml.paths import home
from hpml.ranks.parent.launch import launch
from hpml.ranks.processes import die_with_parent
from hpml.trace.profiler.ranks import read_ranks
from hpml.trace.profiler.trace import Trace

OTHERS = 3  # processes on a crowded core, beside the rank
FIRST, LAST = 2, 7  # the steps that are profiled: after one unrecorded, and one to warm up


@dataclass(frozen=True)
class Slow:
    """One rank takes `seconds` more in a phase, from step `since` on."""

    rank: int
    since: int
    phase: str
    seconds: float

    def more(self, rank: int, step: int, phase: str) -> float:
        """Seconds that this rank has to wait in this phase of this step."""
        here = (rank, phase) == (self.rank, self.phase) and step >= self.since
        return self.seconds if here else 0.0


NOBODY = Slow(-1, 0, "", 0.0)


def somebody(world_size: int) -> Slow:
    """A rank to be found: which one is drawn anew each time, and so are its step and its phase."""
    chance = random.SystemRandom()
    step, phase = chance.randint(FIRST + 1, LAST - 2), chance.choice(("loading", "forward"))
    return Slow(chance.randrange(world_size), step, phase, 0.03)


def fresh_folder(name: str) -> str:
    """An empty folder for the traces of one run: `logs/NAME` in the course's own folder.

    `./hpml tensorboard .hpml/logs` shows all of them. What an earlier run left in it is removed.
    """
    folder = home() / "logs" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return str(folder)


@dataclass(frozen=True)
class Training:
    """What each rank does in a step: images, `layers` of `width` x `width` float32 weights."""

    layers: int = 4
    width: int = 256
    batch: int = 8
    forward: float = 0.005  # seconds that a layer waits, beside what it computes
    backward: float = 0.01
    loading: float = 0.02  # seconds
    sides: Sequence[int] = ()  # of the images that each rank shrinks to 16 pixels; none: it waits
    bucket_mb: float | None = None  # MiB; None: DDP's default, a first bucket of 1, others of 25
    slow: Slow = NOBODY
    crowded: int = -1  # the rank whose core other processes keep busy


def profile_ranks(
    training: Training, world_size: int, folder: str | os.PathLike, *, link: str | None = None
) -> list[Trace]:
    """Train for some steps on ranks, on each with a profiler; their traces, in `folder` too.

    With a `link` ("1gbit") each rank is behind one of that rate, where that can be had.

    Raises UserError where a rank failed, and where a crowded core is asked for and this machine has
    fewer cores than ranks.
    """
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if training.crowded >= 0 and len(cores) < world_size:
        raise UserError(f"{world_size} ranks of which one has a crowded core need so many cores")
    Path(folder).mkdir(parents=True, exist_ok=True)
    inputs = [(training, str(Path(folder).resolve()), cores)] * world_size
    with _busy(cores[training.crowded] if training.crowded >= 0 else None):
        evidence = launch(_on_a_rank, world_size, inputs=inputs, link=link)
    if evidence.diagnosis is not None:
        raise UserError(evidence.diagnosis.sentence)
    return read_ranks(folder)


def _on_a_rank(work: tuple[Training, str, list[int]]) -> None:
    import torch
    from torch import distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel
    from torch.profiler import profile, record_function, schedule, tensorboard_trace_handler

    from hpml.models.waiting import Waiting

    training, folder, cores = work
    rank, slow = dist.get_rank(), training.slow
    if training.crowded >= 0:
        os.sched_setaffinity(0, {cores[rank]})
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Flatten()]
    for number in range(training.layers):
        layers.append(nn.Linear(256 if number == 0 else training.width, training.width))
        if training.forward or training.backward:
            layers.append(Waiting(training.forward, training.backward))
    model = DistributedDataParallel(
        nn.Sequential(*layers),
        bucket_cap_mb=training.bucket_mb,
        broadcast_buffers=False,
        gradient_as_bucket_view=True,
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with profile(
        schedule=schedule(wait=1, warmup=1, active=LAST + 1 - FIRST, repeat=1),
        on_trace_ready=tensorboard_trace_handler(folder, f"rank{rank}"),
        record_shapes=True,
    ) as profiler:
        for step in range(LAST + 1):
            with record_function("loading"):
                if training.sides:
                    side = training.sides[rank]
                    images = torch.rand(training.batch, 1, side, side)
                    images = nn.functional.interpolate(images, size=16, mode="area")
                else:
                    time.sleep(training.loading)
                    images = torch.rand(training.batch, 1, 16, 16)
                time.sleep(slow.more(rank, step, "loading"))
            with record_function("forward"):
                time.sleep(slow.more(rank, step, "forward"))
                loss = model(images).square().mean()
            with record_function("backward"):
                loss.backward()
            with record_function("optimizer"):
                optimizer.step()
                optimizer.zero_grad()
            profiler.step()


@contextmanager
def _busy(core: int | None) -> Iterator[None]:
    """Other processes keep this core busy meanwhile."""
    if core is None:
        yield
        return
    program = f"import os; os.sched_setaffinity(0, {{{core}}})\nwhile True: pass"
    # Linux shares a core fairly among sessions first (sched(7), autogroup): each has its own
    others = [
        subprocess.Popen(
            [sys.executable, "-c", program], start_new_session=True, preexec_fn=die_with_parent
        )
        for _ in range(OTHERS)
    ]
    try:
        yield
    finally:
        for process in others:
            process.kill()
            process.wait()
