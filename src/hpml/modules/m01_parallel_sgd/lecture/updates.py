"""Stochastic gradient descent on several ranks, synchronous or not, with a log of every update.

For demonstration: the computation is a gradient of a few numbers and a pause, so that many ranks
fit on a few cores and a straggler can be made on purpose.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch
import torch.distributed as dist

from hpml.ranks import mark

Gradient = Callable[[torch.Tensor, int], torch.Tensor]  # (weights, number of the batch) -> gradient
Pause = Callable[[int, int], float]  # (worker, step) -> seconds that computing takes


@dataclass(frozen=True)
class Update:
    """One update of the weights.

    `at`: seconds since the first rank began, on the clock that all ranks share. `worker`: whose
    gradient it was, -1 for the mean of all. `staleness`: how many updates were made between the
    reading of the weights that the gradient was computed from and this update (Ho et al. 2013, More
    effective distributed ML via a stale synchronous parallel parameter server, count it in
    iterations). `weights`: after it.
    """

    at: float
    worker: int
    staleness: int
    weights: tuple[float, ...]

    def plain(self) -> dict:
        """As plain values, which a rank can return."""
        return asdict(self) | {"weights": list(self.weights)}


def synchronous(
    gradient: Gradient, start: torch.Tensor, learning_rate: float, steps: int, pause: Pause
) -> list[dict]:
    """All ranks are workers, step together with the mean of their gradients. A collective.

    In each step rank r computes the gradient for batch number step · p + r.
    """
    rank, world_size = dist.get_rank(), dist.get_world_size()
    weights, log = start.clone(), []
    began = _begin()
    for step in range(steps):
        time.sleep(pause(rank, step))
        mine = gradient(weights, step * world_size + rank)
        dist.all_reduce(mine)
        weights -= learning_rate * mine / world_size
        log.append(Update(time.monotonic() - began, -1, 0, tuple(weights.tolist())).plain())
    return log


def asynchronous(
    gradient: Gradient, start: torch.Tensor, learning_rate: float, steps: int, pause: Pause
) -> list[dict]:
    """Rank 0 keeps the weights; the others are workers 0 to p − 2, and none waits for another.

    A worker receives the weights, sends a gradient, and receives the new weights in return.
    The server applies each gradient as soon as it is there, and ends after `steps` per worker, made
    by any of them (Dean et al. 2012, Large scale distributed deep networks, section 4.1:
    Downpour SGD). Returns the server's log, an empty list on other ranks. A collective.
    """
    rank, workers = dist.get_rank(), dist.get_world_size() - 1
    began = _begin()
    if rank == 0:
        return _serve(start, learning_rate, steps * workers, workers, began)
    # The last number is the version of the weights, below 0 when there is no more to do.
    desk = torch.cat([start, torch.zeros(1, dtype=start.dtype)])
    step = 0
    dist.recv(desk, src=0)
    while desk[-1] >= 0:
        time.sleep(pause(rank - 1, step))
        desk[:-1] = gradient(desk[:-1].clone(), step * workers + rank - 1)
        dist.send(desk, dst=0)
        dist.recv(desk, src=0)
        step += 1
    return []


def _serve(
    start: torch.Tensor, learning_rate: float, total: int, workers: int, began: float
) -> list[dict]:
    """A thread waits for each worker; they take turns at the weights."""
    weights, log = start.clone(), []
    turn = threading.Lock()

    def version() -> int:
        return len(log) if len(log) < total else -1

    def attend(worker: int) -> None:
        with turn:
            reply = torch.cat([weights, weights.new_tensor([version()])])
        dist.send(reply, dst=worker + 1)
        while reply[-1] >= 0:
            dist.recv(reply, src=worker + 1)
            with turn:
                if len(log) < total:
                    stale = len(log) - int(reply[-1])
                    weights.sub_(learning_rate * reply[:-1])
                    at = time.monotonic() - began
                    log.append(Update(at, worker, stale, tuple(weights.tolist())).plain())
                reply = torch.cat([weights, weights.new_tensor([version()])])
            dist.send(reply, dst=worker + 1)

    threads = [threading.Thread(target=attend, args=(worker,)) for worker in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return log


def _begin() -> float:
    dist.barrier()
    mark("begin")
    return time.monotonic()
