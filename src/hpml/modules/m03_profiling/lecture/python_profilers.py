"""What profilers of Python cost a step, beside torch.profiler: cProfile and py-spy.

cProfile traces each call of a function; py-spy looks at a process from outside and samples its
stacks, and needs the right to do so (Linux: ptrace of another process).
"""

import contextlib
import cProfile
import io
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpml.measure.clock import with_threads
from hpml.modules.m03_profiling.lecture import profiling_overhead
from hpml.modules.m03_profiling.lecture.profiling_overhead import OFF, Overhead

RATE = 100  # samples per second of py-spy
STRETCH = 0.2  # seconds for which a program runs in each turn, about
PATIENCE = 10.0  # seconds until py-spy has to have begun
PY_SPY, C_PROFILE = f"py-spy, {RATE} samples/s", "cProfile"
CLEAR = 1.1  # times as long: more than two measurements of the same differ
LITTLE = 1.2


def measure(step: Callable[[], object], rounds: int = 5) -> list[Overhead]:
    """The overhead of py-spy and of cProfile, in turns with no profiler; wall clock seconds.

    One thread, as there. py-spy is left out where it may not look into another process.
    """
    with with_threads(1):
        return _measure(step, rounds)


def _measure(step: Callable[[], object], rounds: int) -> list[Overhead]:
    step()
    began = time.perf_counter()
    step()
    count = max(3, round(STRETCH / (time.perf_counter() - began)))
    ways = {OFF: contextlib.nullcontext, PY_SPY: _py_spy, C_PROFILE: cProfile.Profile}
    taken: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, enter in list(ways.items()):
            try:
                with enter():
                    taken[way].append(_mean(step, count))
            except PermissionError:
                del ways[way]
    return [Overhead(way, tuple(taken[way]), tuple(taken[OFF])) for way in ways if way != OFF]


def both(rounds: int = 3) -> dict[str, list[Overhead]]:
    """All ways to profile, on a step of large operators and on one of small ones."""
    programs = {"large operators": 64, "small operators": 1}  # images
    found = {}
    for name, images in programs.items():
        step = profiling_overhead.training_step(images)
        with _silent():
            of_torch = profiling_overhead.measure(rounds, step)
        found[name] = [*measure(step, rounds), *(one for one in of_torch if one.way != OFF)]
    return found


def table(found: Mapping[str, Sequence[Overhead]]) -> str:
    """A row for each way, a column for each program: times as long as without a profiler.

    Beside each the smallest and the largest of a round.
    """
    lines = [f"{'':36}" + "".join(f"{name:>24}" for name in found)]
    for rows in zip(*found.values(), strict=True):
        lines.append(f"{_name(rows[0].way):36}" + "".join(map(_cell, rows)))
    return "\n".join(lines)


def _name(way: str) -> str:
    return way if way in (PY_SPY, C_PROFILE) else f"torch.profiler: {way}"


def _cell(one: Overhead) -> str:
    least, most = one.spread
    return f"{f'{one.ratio:.2f} × ({least:.2f} to {most:.2f})':>24}"


@dataclass(frozen=True)
class Dearest:
    """The way that costs small operators most, and the one that costs large ones most: times as
    long as without a profiler."""

    way: str
    small: float  # operators
    large: float  # operators, with the same way
    of_large: str
    most_of_large: float
    outside: float  # of torch.profiler outside its window, the larger of both programs'

    @property
    def held(self) -> bool:
        """Small operators pay clearly, more than large ones; outside the window both pay little."""
        return self.small > CLEAR and self.small > self.large and self.outside < LITTLE


def dearest(found: Mapping[str, Sequence[Overhead]]) -> Dearest:
    """Of what `both` found."""
    large, small = ({one.way: one.ratio for one in rows} for rows in found.values())
    way, of_large = (max(rows, key=rows.get) for rows in (small, large))
    outside = max(rows["outside its window"] for rows in (large, small))
    of_small = _name(way), small[way], large[way]
    return Dearest(*of_small, _name(of_large), large[of_large], outside)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """What C++ writes to standard error is dropped: PyTorch warns of each tensor that is older
    than the profile and freed in it."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


@contextlib.contextmanager
def _py_spy() -> Iterator[None]:
    """py-spy samples this process. Raises PermissionError with its own words where it may not."""
    beside = Path(sys.executable).with_name("py-spy")
    program = str(beside) if beside.exists() else shutil.which("py-spy") or "py-spy"
    command = [program, "record", "--pid", str(os.getpid()), "--rate", str(RATE)]
    command += ["--format", "raw", "--output", os.devnull]
    sampler = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        _wait_for(sampler, b"Sampling")
        yield
    finally:
        sampler.send_signal(signal.SIGINT)  # as Ctrl-C: it writes its file and ends
        try:
            sampler.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            sampler.kill()
            sampler.wait()
        sampler.stdout.close()


def _wait_for(sampler: subprocess.Popen[bytes], word: bytes) -> None:
    printed, until = io.BytesIO(), time.monotonic() + PATIENCE
    with selectors.DefaultSelector() as selector:
        selector.register(sampler.stdout, selectors.EVENT_READ)
        while word not in printed.getvalue():
            ready = selector.select(max(0.0, until - time.monotonic()))
            content = os.read(sampler.stdout.fileno(), 4096) if ready else b""
            if not content:
                lines = printed.getvalue().decode(errors="replace").strip().splitlines()
                raise PermissionError(f"py-spy: {lines[-1] if lines else 'it has not begun'}")
            printed.write(content)


def _mean(step: Callable[[], object], count: int) -> float:
    began = time.perf_counter()
    for _ in range(count):
        step()
    return (time.perf_counter() - began) / count
