"""A training run in which one worker is held up, and what its ranks tell of it.

Nothing here is timed. The workers' `gradient` is ours, and tells with marks what it was called on.
Part of the weights are counters: a worker's gradient is -1 at its own, so that weights say which
gradients are in them. In the stage "held" one worker is held in a gradient until every other one
has computed as many as the bound allows, by an event: with a hidden barrier that never comes, which
the engine finds as a hang. It is held a little longer, so that who does not keep the bound is seen.
"""

import contextlib
import json
import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist

from hpml.ranks import mark
from hpml.ranks.evidence import RankEvidence

MODEL = 6  # elements of the weights that are a model; one counter for each worker follows
STEPS = 10  # of each worker
LEARNING_RATE = 1 / 16
LONGER = 0.1  # seconds of its own processor time that the straggler is held longer
GATE = "gate"  # the pipe through which the others release it


def inputs(seed: int, world_size: int) -> dict[str, list[dict[str, Any]]]:
    """By stage, for each rank: weights of its own, the loss ½ |w - target|², and who is held when.

    `straggler` is held in its gradient number `hold` (from 0), until each other worker has computed
    `needed` of them.
    """
    draw = torch.Generator().manual_seed(seed)
    choose = random.Random(seed)
    workers = world_size - 1

    def ranks(staleness: int, held: bool) -> list[dict[str, Any]]:
        centre = 4 + torch.rand(MODEL, generator=draw, dtype=torch.float64)
        straggler = choose.randint(1, workers) if held and workers else 0
        hold = choose.randint(0, 2)
        return [
            {
                "weights": torch.cat(
                    [
                        -torch.rand(MODEL, generator=draw, dtype=torch.float64),
                        # No worker's own could be taken for the server's.
                        torch.full((workers,), 1000.0 * rank, dtype=torch.float64),
                    ]
                ),
                "target": centre + 0.2 * torch.randn(MODEL, generator=draw, dtype=torch.float64),
                "staleness": staleness,
                "straggler": straggler,
                "hold": hold,
                "needed": hold + staleness + 1,
            }
            for rank in range(world_size)
        ]

    return {"free": ranks(1, held=False), "held": ranks(3, held=True)}


class Gate:
    """Holds the straggler until each other worker has sent `needed` bytes, by a pipe in the folder.

    The pipe is open for both directions everywhere, so that nobody waits for it to be opened.
    """

    def __init__(self, others: int, needed: int) -> None:
        self._left = others * needed
        self._others = others
        with contextlib.suppress(FileExistsError):
            os.mkfifo(GATE)
        self._pipe = os.open(GATE, os.O_RDWR)

    def tell(self) -> None:
        os.write(self._pipe, b".")

    def hold(self) -> None:
        while self._left > 0:
            self._left -= len(os.read(self._pipe, self._left))
        until = time.process_time() + (LONGER if self._others else 0.0)
        while time.process_time() < until:
            pass


class Gradient:
    """The gradient of one worker's loss, which says what it is called on, and when."""

    def __init__(self, inputs: dict[str, Any]) -> None:
        self._rank = dist.get_rank()
        self._inputs = inputs
        self._made = 0
        self.total = torch.zeros_like(inputs["weights"])
        workers = dist.get_world_size() - 1
        self._straggles = self._rank == inputs["straggler"]
        self._gate = Gate(workers - 1, inputs["needed"]) if inputs["straggler"] else None

    def __call__(self, weights: torch.Tensor) -> torch.Tensor:
        if weights.shape != self.total.shape:
            shapes = f"{tuple(weights.shape)}, expected {tuple(self.total.shape)}"
            raise ValueError(f"gradient(weights): weights are of shape {shapes}")
        counters = weights.detach()[MODEL:].tolist()
        mark("begin " + json.dumps(counters))
        found = torch.zeros_like(self.total)
        found[:MODEL] = weights.detach()[:MODEL] - self._inputs["target"]
        found[MODEL + self._rank - 1] = -1.0
        self.total += found
        if self._straggles and self._made == self._inputs["hold"]:
            mark("held")
            self._gate.hold()
            mark("released")
        mark("end")
        # Told once each, so that nobody is let off by another's haste
        if self._gate and not self._straggles and self._made < self._inputs["needed"]:
            self._gate.tell()
        self._made += 1
        return found


def drive(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """The weights that `serve` returns, on rank 0; the sum of a worker's gradients."""
    weights = inputs["weights"].clone()
    if dist.get_rank() == 0:
        final = answer.serve(weights, LEARNING_RATE, STEPS, inputs["staleness"])
        return {"final": final}
    gradient = Gradient(inputs)
    answer.work(weights, gradient, STEPS)
    return {"total": gradient.total}


@dataclass(frozen=True)
class Step:
    """One gradient: how many gradients of each worker were in the weights it was computed on."""

    counts: tuple[float, ...]
    ended: float | None  # on the clock of the launch


def steps_of(rank: RankEvidence, start: Sequence[float]) -> list[Step]:
    """A worker's gradients in turn, `start` being the counters of the server's first weights."""
    ends = [mark.at for mark in rank.marks if mark.name == "end"]
    found = []
    for mark_ in rank.marks:
        if mark_.name.startswith("begin "):
            seen = json.loads(mark_.name.removeprefix("begin "))
            counts = tuple(
                (one - first) / LEARNING_RATE for one, first in zip(seen, start, strict=True)
            )
            found.append(Step(counts, ends[len(found)] if len(found) < len(ends) else None))
    return found


def moment(rank: RankEvidence, name: str) -> float | None:
    return next((mark.at for mark in rank.marks if mark.name == name), None)
