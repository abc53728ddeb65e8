"""Exercise instrument's training, drive and expected values: steps in four parts, to be profiled.

A rank asks the parent for a number in each part of each step, its *ticket*, and runs one operator
on a tensor of so many elements. A trace that has recorded that part, with shapes or with memory,
has the ticket in it: so it shows which step and which part an event belongs to.
"""

import gzip
import random
import re
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from hpml.checks.seeds import derived
from hpml.ranks import Reply, Server, ask

PARTS = ("load", "forward", "backward", "update")
TICKETS = range(1000, 10_000)  # elements; no tensor of the model has as many
ROWS, WIDTH = 4, 8
FOLDER = "traces"
MOST_BYTES = 8 * 2**20  # of a trace that is read; one that is right has 0.3 MB
ELEMENT = 8  # bytes: all is float64

Ticket = Callable[[str], int]


class Training:
    """One rank's training: the parts of a step, to be called in the order of PARTS.

    Each calls `ticket(part)` once.
    """

    def __init__(self, seed: int, ticket: Ticket) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            layers = [nn.Linear(WIDTH, WIDTH, dtype=torch.float64) for _ in range(2)]
        self._net = nn.Sequential(layers[0], nn.ReLU(), layers[1])
        self._sgd = torch.optim.SGD(self._net.parameters(), lr=0.1)
        self._ticket = ticket

    def _show(self, part: str) -> torch.Tensor:
        return torch.arange(self._ticket(part), dtype=torch.float64).mul(1e-4)

    def load(self) -> torch.Tensor:
        """The next batch, float64 (4, 8)."""
        return self._show("load")[-ROWS * WIDTH :].reshape(ROWS, WIDTH)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """The batch's loss, a float64 scalar."""
        self._show("forward")
        return (self._net(batch) - batch).square().mean()

    def backward(self, loss: torch.Tensor) -> None:
        """Compute the gradients of the loss."""
        self._show("backward")
        loss.backward()

    def update(self) -> None:
        """Change the weights by the gradients, and forget the gradients."""
        self._show("update")
        self._sgd.step()
        self._sgd.zero_grad()

    def weights(self) -> torch.Tensor:
        """All weights, float64 [n]."""
        return nn.utils.parameters_to_vector(self._net.parameters()).detach().clone()


# Made in the parent


def inputs(seed: int, world_size: int) -> list[dict[str, Any]]:
    """For each rank: its seed and tickets, and which steps are to be recorded, the same on all."""
    pick = random.Random(derived(seed, "steps"))
    # Over the four world sizes each number takes two values, and wait is never active
    wait, active = (2, 3) if world_size < 3 else (3, 2)
    warmup = 1 + world_size % 2
    # A second window, if somebody opens one, is over, and a third has not begun
    steps = 2 * (wait + warmup + active) + pick.randint(0, wait - 1)
    return [
        {
            "seed": derived(seed, f"weights {rank}"),
            "tickets": random.Random(derived(seed, f"tickets {rank}")).sample(
                TICKETS, steps * len(PARTS)
            ),
            "steps": steps,
            "wait": wait,
            "warmup": warmup,
            "active": active,
        }
        for rank in range(world_size)
    ]


def serving(
    lasts: Sequence[float] = (0.0, 0.0, 0.0, 0.0),
) -> Callable[[Sequence[dict[str, Any]]], tuple[Sequence[Any], Server]]:
    """A stage's `serve`: the n-th request of a rank gets its n-th ticket.

    The reply comes after as many seconds as its part `lasts`.
    """

    def serve(ranks: Sequence[dict[str, Any]]) -> tuple[Sequence[Any], Server]:
        served: Counter[int] = Counter()  # tickets, by rank

        def reply(rank: int, request: Any) -> list[Reply]:
            part = request.get("part") if isinstance(request, dict) else None
            if part not in PARTS:
                raise ValueError(f"a part of a step is one of {', '.join(PARTS)}")
            if served[rank] == len(ranks[rank]["tickets"]):
                raise ValueError("there were more steps than were asked for")
            served[rank] += 1
            ticket = ranks[rank]["tickets"][served[rank] - 1]
            return [Reply(rank, ticket, after=lasts[PARTS.index(part)])]

        return [{k: v for k, v in rank.items() if k != "tickets"} for rank in ranks], reply

    return serve


def expect(inputs: list[dict[str, Any]], world_size: int) -> list[torch.Tensor]:
    """Each rank's weights after all of its steps."""
    found = []
    for rank in inputs:
        tickets = iter(rank["tickets"])
        training = Training(rank["seed"], lambda part, tickets=tickets: next(tickets))
        for _ in range(rank["steps"]):
            training.backward(training.forward(training.load()))
            training.update()
        found.append(training.weights())
    return found


# In a rank


def drive(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """Train with the answer's profiler; returns the weights and this rank's trace, if any.

    A profiler that warms up records nothing: that it has been told to get ready shows nowhere else.
    """
    from torch.profiler.profiler import _KinetoProfile

    get_ready, ready = _KinetoProfile.prepare_trace, []

    def noted(profiler: Any) -> None:
        ready.append(True)
        get_ready(profiler)

    def ticket(part: str) -> int:
        on = torch.autograd._profiler_enabled()
        return ask({"part": part, "profiled": on, "ready": bool(ready)})

    _KinetoProfile.prepare_trace = noted  # type: ignore[assignment]

    Path(FOLDER).mkdir(exist_ok=True)
    training = Training(inputs["seed"], ticket)
    answer.train(
        training, inputs["steps"], inputs["wait"], inputs["warmup"], inputs["active"], FOLDER
    )
    return {"weights": training.weights(), "trace": content(dist.get_rank())}


def content(rank: int) -> bytes:
    """What is in the first file of FOLDER that is named after `rank`; b"" without one."""
    for path in sorted(Path(FOLDER).iterdir()):
        if is_named_after(rank, path.name) and path.is_file():
            try:
                with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
                    return file.read(MOST_BYTES + 1)
            except (OSError, EOFError, zlib.error):
                return b"it is cut off, or no gzip"
    return b""


def is_named_after(rank: int, name: str) -> bool:
    """Whether a file's name has "rank3" in it, and no digit after it."""
    return re.search(rf"rank{rank}(?!\d)", name) is not None
