"""A training run in which one worker, the straggler, is held up, and the evidence from its ranks.

Nothing here is timed. The workers' `gradient` is ours and records, with marks, on which weights it
was called. Some elements of the weights are counters: a worker's gradient is -1 at its own counter,
so the weights show which gradients are in them. In the stage "held" the straggler waits in each
gradient until every other worker has computed as many gradients as the staleness bound then allows.
With a hidden barrier in the answer this never happens, and the engine reports a hang. In one
gradient the straggler is held a little longer, so that workers that exceed the bound are detected.
"""

import contextlib
import json
import os
import random
import time
from collections import Counter
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist

from hpml.ranks import mark
from hpml.ranks.evidence import RankEvidence

MODEL = 6  # elements of the weights for the model; a counter for each worker follows
STEPS = 10  # of each worker
LEARNING_RATE = 1 / 16
LONGER = 0.1  # seconds of its own processor time that the straggler is held longer
GATE = "gate"  # the pipe through which the others release it


def inputs(seed: int, world_size: int) -> dict[str, list[dict[str, Any]]]:
    """By stage, for each rank: its own weights, the loss ½ |w - target|², and who is held when.

    `straggler` is held in every gradient, and longer than needed in number `longer` (from 0).
    """
    draw = torch.Generator().manual_seed(seed)
    choose = random.Random(seed)
    workers = world_size - 1

    def ranks(staleness: int, held: bool) -> list[dict[str, Any]]:
        centre = 4 + torch.rand(MODEL, generator=draw, dtype=torch.float64)
        straggler = choose.randint(1, workers) if held and workers else 0
        longer = choose.randint(0, 2)
        return [
            {
                "weights": torch.cat(
                    [
                        -torch.rand(MODEL, generator=draw, dtype=torch.float64),
                        # Far from the server's, so that the two cannot be confused.
                        torch.full((workers,), 1000.0 * rank, dtype=torch.float64),
                    ]
                ),
                "target": centre + 0.2 * torch.randn(MODEL, generator=draw, dtype=torch.float64),
                "staleness": staleness,
                "straggler": straggler,
                "longer": longer,
            }
            for rank in range(world_size)
        ]

    return {"free": ranks(1, held=False), "held": ranks(3, held=True)}


def allowed(number: int, staleness: int) -> int:
    """How many gradients the others may compute while one computes its `number` (from 0)."""
    return min(number + staleness + 1, STEPS)


class Gate:
    """Workers report each computed gradient through a pipe in the scratch folder.

    Every rank opens the pipe for both directions, so that opening does not block.
    """

    def __init__(self) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkfifo(GATE)
        self._pipe = os.open(GATE, os.O_RDWR)
        self._computed = Counter()

    def tell(self, rank: int) -> None:
        os.write(self._pipe, bytes([rank]))

    def wait(self, others: Sequence[int], needed: int) -> None:
        """Wait until each of the others has reported `needed` gradients since the beginning."""
        while any(self._computed[rank] < needed for rank in others):
            self._computed.update(os.read(self._pipe, 1))


class Gradient:
    """The gradient of one worker's loss; records on which weights it is called, and when."""

    def __init__(self, inputs: dict[str, Any]) -> None:
        self._rank = dist.get_rank()
        self._inputs = inputs
        self._made = 0
        self.total = torch.zeros_like(inputs["weights"])
        self._straggles = self._rank == inputs["straggler"]
        self._others = [r for r in range(1, dist.get_world_size()) if r != self._rank]
        self._gate = Gate() if inputs["straggler"] else None

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
        if self._straggles:
            self._hold()
        mark("end")
        if self._gate and not self._straggles:
            self._gate.tell(self._rank)
        self._made += 1
        return found

    def _hold(self) -> None:
        mark("held")
        self._gate.wait(self._others, allowed(self._made, self._inputs["staleness"]))
        if self._others and self._made == self._inputs["longer"]:
            until = time.process_time() + LONGER
            while time.process_time() < until:
                pass
        mark("released")


def drive(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """The weights that `serve` returns, on rank 0; the sum of a worker's gradients."""
    weights = inputs["weights"].clone()
    if dist.get_rank() == 0:
        final = answer.serve(weights, LEARNING_RATE, STEPS, inputs["staleness"])
        return {"final": final}
    gradient = Gradient(inputs)
    answer.work(weights, gradient, STEPS)
    return {"total": gradient.total}


def applied_before(rank: RankEvidence, start: Sequence[float]) -> list[list[float]]:
    """For each gradient of a worker, how many gradients of each worker its weights contained.

    `start` are the counters in the server's initial weights.
    """
    seen = [
        json.loads(told.name.removeprefix("begin "))
        for told in rank.marks
        if told.name.startswith("begin ")
    ]
    return [
        [(now - first) / LEARNING_RATE for now, first in zip(counters, start, strict=True)]
        for counters in seen
    ]


def moments(rank: RankEvidence, name: str) -> list[float]:
    return [told.at for told in rank.marks if told.name == name]
