"""Exercise parameter_server: synchronous SGD with the weights on one rank.

`serve(weights, gradient, learning_rate, steps)` runs on rank 0, which is a worker too and returns
the weights after the steps; `work(weights, gradient, steps)` runs on the others. `gradient` asks
the parent, which alone knows the ranks' samples, and logs the weights it was asked for.
"""

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist

from hpml.checks.budget import over_bytes
from hpml.checks.compare import difference
from hpml.checks.contract import CannotJudge, Check, Claim, Problem, Run
from hpml.checks.kits import ready_made
from hpml.modules.m01_parallel_sgd.checks._served_gradients import (
    gradient_for,
    gradients,
    weights_of,
)
from hpml.ranks import Reply, Server
from hpml.ranks.evidence import ANYONE

ELEMENTS = 16_384
NBYTES = 8 * ELEMENTS  # of the weights, and of a gradient
STEPS = 4
LEARNING_RATE = 0.125
TOLERANCE = 1e-9  # all is float64: only the order of additions may differ


def inputs(seed: int, world_size: int) -> list[dict[str, torch.Tensor]]:
    """For each rank: its own weights, and c and t of its samples' loss ½ Σ c (w - t)²."""
    draw = torch.Generator().manual_seed(seed)

    def vector() -> torch.Tensor:
        return torch.randn(ELEMENTS, generator=draw, dtype=torch.float64)

    return [
        {"weights": vector(), "curvature": 0.5 + vector().abs(), "target": 3 * vector()}
        for _ in range(world_size)
    ]


def serve(ranks: Sequence[dict[str, torch.Tensor]]) -> tuple[list[dict[str, Any]], Server]:
    """A stage's `serve`: ranks are sent their weights, and ask for gradients."""

    def gradient(rank: int, request: Any) -> list[Reply]:
        weights = weights_of(request, (ELEMENTS,))
        return [Reply(rank, ranks[rank]["curvature"] * (weights - ranks[rank]["target"]))]

    return [{"weights": rank["weights"]} for rank in ranks], gradient


def drive(answer: ModuleType, inputs: dict[str, torch.Tensor]) -> torch.Tensor | None:
    """The weights that `serve` returns, on rank 0."""
    weights = inputs["weights"].clone()
    gradient = gradient_for(weights)
    if dist.get_rank() == 0:
        return answer.serve(weights, gradient, LEARNING_RATE, STEPS)
    answer.work(weights, gradient, STEPS)
    return None


def trajectory(ranks: Sequence[dict[str, torch.Tensor]], shares: Sequence[float]) -> list:
    """Rank 0's weights before each step and after the last; shares[r] scales rank r's gradient."""
    weights = ranks[0]["weights"]
    found = [weights]
    for _ in range(STEPS):
        total = sum(
            share * rank["curvature"] * (weights - rank["target"])
            for share, rank in zip(shares, ranks, strict=True)
        )
        weights = weights - LEARNING_RATE * total
        found.append(weights)
    return found


def expect(inputs: list[dict[str, torch.Tensor]], world_size: int) -> dict[str, Any]:
    """The weights of synchronous SGD, and those that usual mistakes give."""
    mean, others = 1 / world_size, max(world_size - 1, 1)
    workers = [1.0] * (world_size - 1)
    mistakes = {
        "sum": [[1.0] * world_size, [1 / others] * world_size],
        "forgotten": [[0.0] + [w / n for w in workers] for n in (others, world_size, 1)],
        "alone": [[1.0] + [0.0] * len(workers), [mean] + [0.0] * len(workers)],
    }
    return {
        "weights": trajectory(inputs, [mean] * world_size),
        "mistakes": {
            hint: [trajectory(inputs, shares) for shares in each] for hint, each in mistakes.items()
        },
    }


def seen_by(run: Run) -> list[list[torch.Tensor]]:
    """By rank, the weights at which it asked for gradients."""
    return [[asked.request["weights"] for asked in gradients(rank)] for rank in run.evidence.ranks]


def gradients_of_the_servers_weights(run: Run) -> Problem | None:
    """Each rank computes one gradient per step, at the server's weights of that step."""
    seen = seen_by(run)
    for rank, own in enumerate(seen):
        if len(own) != STEPS:
            message = f"rank {rank} computed {len(own)} gradients in {STEPS} steps"
            return Problem(message, "forgotten" if rank == 0 and len(own) < STEPS else "steps")
    for step in range(STEPS):
        # The server's weights at this step, right or wrong: it computes a gradient too.
        served = seen[0][step]
        for rank, own in enumerate(seen):
            if not (found := difference(own[step], served)):
                continue
            stale = any(not difference(own[step], earlier) for earlier in seen[0][:step])
            mine = not difference(own[step], run.inputs[rank]["weights"])
            hint = "own_weights" if mine else "stale" if stale else "protocol"
            where = f"rank {rank}'s gradient of step {step + 1} is not of the server's weights"
            return Problem(f"{where}: what it was computed on {found}", hint, found.expected)
    return None


def equals_synchronous_sgd(run: Run) -> Problem | None:
    final, right = run.values[0], run.expected["weights"][-1]
    if found := difference(final, right, TOLERANCE):
        message = f"after {STEPS} steps, what serve returns {found} from synchronous SGD's weights"
        alike = isinstance(final, torch.Tensor) and final.shape == right.shape
        if not alike or final.dtype != right.dtype:
            return Problem(f"what serve returns {found}", "types", found.expected)
        for hint, wrong in run.expected["mistakes"].items():
            if any(not difference(final, each[-1], TOLERANCE) for each in wrong):
                return Problem(message, hint)
        if not difference(final, run.expected["weights"][-2], TOLERANCE):
            return Problem(f"{message}: they are those of one step less", "steps")
        # Where gradients are of other weights, the end only follows from them.
        first = gradients_of_the_servers_weights(run)
        return Problem(message, first.hint if first else "start")
    # Other steps may end at the same weights, so compare each step.
    for step, weights in enumerate(seen_by(run)[0][:STEPS]):
        if found := difference(weights, run.expected["weights"][step], TOLERANCE):
            message = f"before step {step + 1}, the server's weights {found}"
            return Problem(message, "start", found.expected)
    return None


def only_send_and_receive(run: Run) -> Problem | None:
    for rank in run.evidence.ranks if run.world_size > 1 else ():
        if not rank.calls:
            return Problem(f"rank {rank.rank} has neither sent nor received", "collective")
        for call in rank.calls:
            where = f" (line {call.line} of your answer)" if call.line else ""
            if call.operation not in ("send", "recv"):
                return Problem(
                    f"rank {rank.rank} is in a collective, {call.operation}{where}", "collective"
                )
            if rank.rank and call.peer not in (0, ANYONE):
                seen = f"rank {rank.rank}, a worker, has a {call.operation} {call.detail}{where}"
                return Problem(seen, "star")
    return None


def one_copy_each_way(run: Run) -> Problem | CannotJudge | None:
    """By the kernel's counters: in each step, weights to each worker and its gradient back."""
    workers = run.world_size - 1
    if not workers:
        return None
    least = [STEPS * NBYTES * workers, *[STEPS * NBYTES] * workers]
    for rank, bound in zip(run.evidence.ranks, least, strict=True):
        if rank.traffic is not None and rank.traffic.sent_bytes < 0.9 * bound:
            return Problem(
                f"rank {rank.rank} sent {rank.traffic.sent_bytes} bytes over its link; "
                f"{STEPS} steps take {bound}",
                because_of(run, "few"),
            )
    # The server may send the weights once more, before the first step or after the last.
    most = [least[0] + NBYTES * workers, *least[1:]]
    return over_bytes(run.evidence, most, because_of(run, "wire"))


def because_of(run: Run, hint: str) -> str:
    """`hint` for a wrong number of bytes, or the hint of what the bytes only follow from."""
    first = only_send_and_receive(run)
    return first.hint if first else hint


CHECK = Check(
    id="parameter_server",
    title="One rank that everyone asks",
    names=("serve", "work"),
    to_write="the server and its workers",
    allowed=ready_made.MESSAGES,
    not_allowed=(ready_made.COLLECTIVES, ready_made.REMOTE_CALLS),
    inputs=inputs,
    drive=drive,
    expect=expect,
    serve=serve,
    link="1gbit",
    claims=(
        Claim("every gradient is of the server's weights", 3, gradients_of_the_servers_weights),
        Claim("the server ends where synchronous SGD ends", 3, equals_synchronous_sgd),
        Claim(
            "workers talk with the server, and in pairs", 2, only_send_and_receive, of_calls=True
        ),
        Claim(
            "each step, one copy travels each way for each worker",
            2,
            one_copy_each_way,
            of_calls=True,
        ),
    ),
    hints={
        "start": "Who sends what to whom in one step, and what must have arrived before? The "
        "server sends its weights to every worker, all of them compute their gradients, the "
        "server receives the workers', adds its own, divides by the number of ranks, and takes "
        "the step.",
        "forgotten": "The server's own gradient is not in the step. The server has samples of its "
        "own, and nobody else computes their gradient: in each step it is one of the gradients of "
        "the mean, and what arrives is added to it.",
        "sum": "The loss of the big batch is the mean over all ranks, the server included: divide "
        "the sum of the gradients by the world size.",
        "alone": "The server went where its own gradient leads. What the workers sent has to be in "
        "the step as well: dist.recv writes into the tensor that it is given.",
        "own_weights": "Each worker came with weights of its own. Only the server's count: receive "
        "them before the gradient is computed, in each step.",
        "stale": "That gradient is of weights that the server has left behind. In each step: first "
        "receive the weights, then compute, then send.",
        "protocol": "What arrives at a worker are not the server's weights. Messages between two "
        "ranks arrive in the order in which they were sent: does the other side receive in the "
        "same order, and the same things?",
        "steps": "Count the rounds: every rank computes one gradient in each of the steps, and the "
        "server takes a step with them.",
        "collective": "A parameter server is made of messages between two ranks: dist.send and "
        "dist.recv (or isend and irecv). A collective makes the same sum without a server, and "
        "the server is what this exercise is about.",
        "star": "A worker knows the server and nobody else. What other workers computed is in the "
        "weights that the server sends.",
        "wire": "Per step the server owes each worker one copy of the weights, and each worker "
        "owes it one gradient. The gradients of the others, or the same weights twice, need not "
        "travel.",
        "few": "Per step each worker needs one copy of the server's weights, and the server one "
        "gradient of each worker. Count the messages of that rank: is there a send in each step?",
        "types": "serve returns the server's weights: a float64 tensor of the shape that came in.",
        "hang": "Every send needs its recv on the other side, in the same order: dist.send may "
        "only return once the other has asked. Who speaks first, and does the server hear every "
        "worker, however many there are?",
    },
)
