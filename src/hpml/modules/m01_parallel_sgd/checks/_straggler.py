"""A training run in which one worker, the straggler, is held up, and the evidence from it.

Nothing here is timed. The workers' `gradient` asks the parent, where all gradients are computed and
the weights they are asked for are logged. Some elements of the weights are counters: a worker's
gradient is about -1 at its own counter, and by how much it is not, nobody can know before it is
served. So the weights show which gradients are in them, and cannot have any before its time.

In the stages "held" and "together" the server lets the straggler wait in each gradient until every
other worker has computed as many gradients as the staleness bound then allows. With a hidden
barrier in the answer this never happens, and the engine reports a hang. In one gradient the
straggler is held longer, so that workers that exceed the bound are detected: until nobody can go on
before it does. A bound that is given up after a while has somebody wait with a deadline.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist

from hpml.modules.m01_parallel_sgd.checks._served_gradients import (
    gradient_for,
    gradients,
    weights_of,
)
from hpml.ranks import Reply, Server
from hpml.ranks.evidence import Evidence, RankEvidence

MODEL = 6  # elements of the weights for the model; a counter for each worker follows
STEPS = 10  # of each worker
LEARNING_RATE = 1 / 16
UNKNOWN = 0.02  # by how much a counter's part of a gradient may differ from -1
EXACT = 1e-7  # tolerance of a counter, in gradients
LONGER = 0.3  # seconds that the straggler is held longer
PATIENCE = 3.0  # seconds more while somebody may go on by itself
SERVED = ("target", "counts", "straggler", "longer")  # inputs that no rank gets


def inputs(seed: int, world_size: int) -> dict[str, list[dict[str, Any]]]:
    """By stage, for each rank: its own weights, the loss ½ |w - target|², and who is held when.

    `counts` is what each gradient of the rank takes from its counter. `straggler` is held in every
    gradient, and longer than needed in number `longer` (from 0).
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
                "counts": 1 + UNKNOWN * torch.rand(STEPS, generator=draw, dtype=torch.float64),
                "staleness": staleness,
                "straggler": straggler,
                "longer": longer,
            }
            for rank in range(world_size)
        ]

    return {
        "free": ranks(1, held=False),
        "held": ranks(3, held=True),
        "together": ranks(0, held=True),
    }


def allowed(number: int, staleness: int) -> int:
    """How many gradients the others may compute while one computes its `number` (from 0)."""
    return min(number + staleness + 1, STEPS)


def gradient_of(
    ranks: Sequence[dict[str, Any]], rank: int, number: int, weights: torch.Tensor
) -> torch.Tensor:
    """The gradient `number` (from 0) of a worker, at `weights`."""
    found = torch.zeros_like(ranks[rank]["weights"])
    found[:MODEL] = weights[:MODEL] - ranks[rank]["target"]
    found[MODEL + rank - 1] = -ranks[rank]["counts"][number % STEPS]
    return found


class Gradients:
    """The server of one launch: a request is {"weights": a worker's weights}."""

    def __init__(self, ranks: Sequence[dict[str, Any]]) -> None:
        self._ranks = ranks
        self._straggler = ranks[0]["straggler"]
        self._others = [r for r in range(1, len(ranks)) if r != self._straggler]
        self._made: Counter[int] = Counter()
        self._held: Reply | None = None

    def __call__(self, rank: int, request: Any) -> Iterator[Reply]:
        weights = weights_of(request, self._ranks[0]["weights"].shape)
        if rank == 0:
            raise ValueError("gradients are for workers")
        reply = Reply(rank, gradient_of(self._ranks, rank, self._made[rank], weights))
        self._made[rank] += 1
        if rank == self._straggler:
            self._held = reply
        else:
            yield reply
        if self._held and not self._must_wait():
            number = self._made[self._straggler] - 1
            longer = self._others and number == self._ranks[0]["longer"]
            waits = (LONGER, PATIENCE) if longer else (0.0, 0.0)
            yield Reply(self._held.rank, self._held.value, *waits)
            self._held = None

    def _must_wait(self) -> bool:
        needed = allowed(self._made[self._straggler] - 1, self._ranks[0]["staleness"])
        return any(self._made[rank] < needed for rank in self._others)


def serve(ranks: Sequence[dict[str, Any]]) -> tuple[Sequence[dict[str, Any]], Server]:
    """A stage's `serve`."""
    return [{k: v for k, v in r.items() if k not in SERVED} for r in ranks], Gradients(ranks)


def drive(answer: ModuleType, inputs: dict[str, Any]) -> torch.Tensor | None:
    """The weights that `serve` returns, on rank 0."""
    weights = inputs["weights"].clone()
    if dist.get_rank() == 0:
        return answer.serve(weights, LEARNING_RATE, STEPS, inputs["staleness"])
    answer.work(weights, gradient_for(weights), STEPS)
    return None


def made(rank: RankEvidence) -> int:
    """How many gradients a worker has got."""
    return sum(asked.answered is not None for asked in gradients(rank))


def total(evidence: Evidence, ranks: Sequence[dict[str, Any]]) -> torch.Tensor:
    """The sum of all gradients that were served."""
    found = torch.zeros_like(ranks[0]["weights"])
    for rank in evidence.ranks[1:]:
        for number, asked in enumerate(gradients(rank)):
            weights = asked.request["weights"].double()
            found += gradient_of(ranks, rank.rank, number, weights)
    return found


def applied_before(rank: RankEvidence, ranks: Sequence[dict[str, Any]]) -> list[list[int | None]]:
    """For each gradient of a worker, how many gradients of each worker its weights contained; None
    where the counter is that of no number of them."""
    start = ranks[0]["weights"]
    after = [[0.0, *of["counts"].cumsum(0).tolist()] for of in ranks[1:]]  # each gradient
    found = []
    for asked in gradients(rank):
        counters = ((asked.request["weights"].double() - start)[MODEL:] / LEARNING_RATE).tolist()
        found.append(
            [
                next((n for n, sum_ in enumerate(sums) if abs(counter - sum_) < EXACT), None)
                for counter, sums in zip(counters, after, strict=True)
            ]
        )
    return found
