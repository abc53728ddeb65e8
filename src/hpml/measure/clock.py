"""The time of one piece of work, as little disturbed as a shared machine allows."""

import contextlib
import time
from collections.abc import Callable, Iterator

import torch


def quickest(
    work: Callable[[], object], seconds: float = 0.05, device: torch.device | str = "cpu"
) -> float:
    """Seconds of the quickest of the runs of `work` that fit into `seconds`, three at least.

    After a first run that is not counted. The quickest, because other programs only add. On a GPU
    each run ends when the device has done its work.
    """
    wait = torch.cuda.synchronize if torch.device(device).type == "cuda" else _nothing
    work()
    wait()
    taken: list[float] = []
    until = time.perf_counter() + seconds
    while len(taken) < 3 or time.perf_counter() < until:
        started = time.perf_counter()
        work()
        wait()
        taken.append(time.perf_counter() - started)
    return min(taken)


@contextlib.contextmanager
def with_threads(threads: int) -> Iterator[None]:
    """PyTorch computes with so many threads on the CPU; afterwards with as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _nothing() -> None:
    pass
