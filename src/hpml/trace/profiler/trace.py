"""What one rank's profiler recorded, as columns of numbers."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Step:
    """One profiled step, as torch.profiler marks it ("ProfilerStep#3")."""

    number: int
    start: float  # seconds on the trace's clock
    end: float


@dataclass(frozen=True)
class Trace:
    """The events that one rank's profiler recorded, sorted by start; n of them.

    Times are seconds on that rank's own clock. `name[i]` is an index into `names`, `category[i]`
    into `categories` ("cpu_op", "user_annotation", "kernel": the trace's own words), `thread[i]`
    into `threads` (the trace's own ids: (pid, tid)).
    """

    rank: int | None  # None: the program was not distributed
    world_size: int | None
    start: np.ndarray  # float64 [n]
    duration: np.ndarray  # float64 [n]
    name: np.ndarray  # int32 [n]
    category: np.ndarray  # int32 [n]
    thread: np.ndarray  # int32 [n]
    names: tuple[str, ...]
    categories: tuple[str, ...]
    threads: tuple[tuple[str, str], ...]
    steps: tuple[Step, ...]
