"""Exercise async_sgd: workers that need not wait for each other, up to a staleness bound.

`serve(weights, learning_rate, steps, staleness)` runs on rank 0, which has no samples and returns
the weights at the end; `work(weights, gradient, steps)` runs on the others. The rule is that of
stale synchronous parallel training (Ho et al. 2013, More effective distributed ML via a stale
synchronous parallel parameter server, section 2): a worker starts its step c once at least
c - staleness gradients of every worker are in the weights. How this is tested: `_straggler.py`.
"""

from typing import Any

import torch

from hpml.checks.compare import difference
from hpml.checks.contract import Check, Claim, Problem, Run, Stage, fault
from hpml.checks.kits.ready_made import ALL_ELSE, REMOTE_CALLS
from hpml.modules.m01_parallel_sgd.checks._served_gradients import gradients
from hpml.modules.m01_parallel_sgd.checks._straggler import (
    LEARNING_RATE,
    MODEL,
    STEPS,
    allowed,
    applied_before,
    drive,
    inputs,
    made,
    serve,
    total,
)
from hpml.ranks.evidence import Evidence

TOLERANCE = 1e-9  # all is float64: only the order of additions may differ
# Hints for a server that steps otherwise: what its workers compute on then follows from that
HELD = ("held", "together")  # stages with a straggler
OF_THE_SERVER = ("mean", "lost", "twice", "sign")


def expect(inputs: dict[str, list[dict[str, Any]]], world_size: int) -> dict[str, torch.Tensor]:
    """By stage, the optimum: the mean of the workers' targets."""
    return {
        stage: torch.stack([rank["target"] for rank in ranks[1:] or ranks]).mean(0)
        for stage, ranks in inputs.items()
    }


def stalled(run: Run) -> Problem | None:
    """Why a stage with a straggler did not finish; None if all did."""
    return next(filter(None, (stalled_in(run, stage) for stage in HELD)), None)


def stalled_in(run: Run, stage: str) -> Problem | None:
    evidence, of = run.stages[stage], run.inputs[stage][0]
    if evidence.diagnosis is None:
        return None
    straggler = evidence.ranks[of["straggler"]]
    held = len(gradients(straggler))
    if evidence.diagnosis.kind not in ("hang", "limit") or held == made(straggler):
        return fault(evidence)
    others = {rank.rank: made(rank) for rank in evidence.ranks[1:] if rank is not straggler}
    may = allowed(held - 1, of["staleness"])
    slowest = min(others, key=others.get)
    # A worker that waits too early does so from the beginning.
    strict = held == 1 and all(count == may - 1 for count in others.values())
    return Problem(
        f"while rank {straggler.rank} was held in its gradient {held}, rank {slowest} computed "
        f"{others[slowest]} in all and then waited",
        "strict" if strict else "barrier",
        f"up to {may} with a staleness of {of['staleness']}",
    )


def goes_on(run: Run) -> Problem | None:
    # The straggler was held until the others had gone on: no stall is the proof.
    counted = (computed_all(run.stages[stage]) for stage in HELD)
    return stalled(run) or next(filter(None, counted), None)


def computed_all(evidence: Evidence) -> Problem | None:
    for rank in evidence.ranks[1:]:
        if (count := made(rank)) != STEPS:
            return Problem(f"rank {rank.rank} computed {count} gradients in {STEPS} steps", "steps")
    return None


def like_weights(value: Any, weights: torch.Tensor) -> bool:
    alike = isinstance(value, torch.Tensor) and value.shape == weights.shape
    return alike and value.dtype == weights.dtype


def applied_once(run: Run) -> Problem | None:
    if problem := stalled(run):
        return problem
    for stage, evidence in run.stages.items():
        ranks, final = run.inputs[stage], evidence.values[0]
        start = ranks[0]["weights"]
        if problem := computed_all(evidence):
            return problem
        right = start - LEARNING_RATE * total(evidence, ranks)
        if not (found := difference(final, right, TOLERANCE)):
            continue
        if not like_weights(final, start):
            return Problem(f"what serve returns {found}", "types", found.expected)
        whole = (right - start)[MODEL:]
        shares = ((final - start)[MODEL:] / whole).tolist()
        worker, share = next(
            ((w, s) for w, s in enumerate(shares, 1) if abs(s - 1) > 1e-6), (0, 1.0)
        )
        if not worker:
            return Problem(f"what serve returns {found} from all gradients' sum", "start")
        hint = "mean" if abs(share * len(shares) - 1) < 1e-6 else "lost" if share < 1 else "twice"
        return Problem(
            f"of rank {worker}'s {STEPS} gradients, {share * STEPS:.3g} are in the weights at the "
            "end",
            "sign" if share < 0 else hint,
        )
    return None


def keeps_the_bound(run: Run) -> Problem | None:
    if problem := stalled(run):
        return problem
    for stage, evidence in run.stages.items():
        ranks = run.inputs[stage]
        bound = ranks[0]["staleness"]
        for rank in evidence.ranks[1:]:
            for number, counts in enumerate(applied_before(rank, ranks)):
                seen = f"rank {rank.rank}'s gradient {number + 1}"
                if None in counts:
                    given = gradients(rank)[number].request["weights"].double()
                    if not difference(given[MODEL:], ranks[rank.rank]["weights"][MODEL:]):
                        return Problem(f"{seen} was computed on its own weights", "own_weights")
                    return Problem(
                        f"{seen} was computed on weights that no number of whole steps leads to",
                        because_of(run, "protocol"),
                    )
                least = number - bound
                mine = counts[rank.rank - 1]
                if mine < least:
                    message = f"{seen} was computed on weights with {mine} of its own in them"
                    return Problem(message, because_of(run, "stale"), f"at least {least}")
                for worker, count in enumerate(counts, 1):
                    if count < least:
                        return Problem(
                            f"{seen} was begun with {count} of rank {worker}'s gradients in the "
                            "weights",
                            "bound",
                            f"at least {least} with a staleness of {bound}",
                        )
    return None


def because_of(run: Run, hint: str) -> str:
    """`hint` for weights that a worker had, or why the server's own are wrong."""
    first = applied_once(run)
    return first.hint if first and first.hint in OF_THE_SERVER else hint


def converges(run: Run) -> Problem | None:
    if problem := stalled(run):
        return problem
    for stage, evidence in run.stages.items() if run.world_size > 1 else ():
        start, final = run.inputs[stage][0]["weights"], evidence.values[0]
        if not like_weights(final, start):
            found = difference(final, start)
            return Problem(f"what serve returns {found}", "types", found.expected)
        before, after = (
            (weights[:MODEL] - run.expected[stage]).square().sum().item()
            for weights in (start, final)
        )
        if not after < before / 2:
            first = applied_once(run) or keeps_the_bound(run)
            return Problem(
                f"the squared distance to the optimum is {after:.3g} after {STEPS} steps of each "
                f"worker, from {before:.3g}",
                first.hint if first else "start",
            )
    return None


CHECK = Check(
    id="async_sgd",
    title="Workers that wait for nobody, up to a bound",
    names=("serve", "work"),
    to_write="the server and its workers",
    allowed=f"{ALL_ELSE}, messages of `torch.distributed` first of all",
    not_allowed=(REMOTE_CALLS,),
    inputs=inputs,
    expect=expect,
    stages=(
        Stage("free", drive, serve=serve),
        *(Stage(stage, drive, dies=True, serve=serve) for stage in HELD),
    ),
    claims=(
        Claim("while one worker is held up, the others go on", 5, goes_on),
        Claim("every gradient is applied, once and whole", 4, applied_once),
        Claim("no worker runs further ahead than the bound", 4, keeps_the_bound),
        Claim("training converges", 2, converges),
    ),
    hints={
        "start": "Who may go on when a gradient has arrived, and who must wait? The server's "
        "loop has one message per turn: receive a gradient from the worker that speaks first, "
        "apply it, note whose it was, and send weights to those who may go on now. A worker "
        "receives weights, computes, and sends its gradient.",
        "barrier": "A barrier by another name: somebody waits for one particular worker before all "
        "the others are served. A loop over the workers that receives from each in turn, a round "
        "that ends when all have come, a collective. dist.recv(tensor) without a source takes what "
        "comes first, and returns whose it is.",
        "strict": "One step too early: with a staleness of s, a worker may be s steps ahead of the "
        "slowest, and it is only held back when it would start a step further ahead than that.",
        "bound": "That worker was to be held back at that moment. Count each worker's gradients "
        "as they come: a worker that has c of them in the weights gets weights for its step c, but "
        "only once every worker has at least c - staleness. When the slowest has caught up, "
        "several workers may get weights at once.",
        "stale": "These weights are too old even for the worker itself: it has to receive the "
        "server's weights in each step, before it computes. And the server sends those that its "
        "step has led to, not those before the step.",
        "own_weights": "The worker came with weights of its own, and the server's count: receive "
        "them before each gradient, the first one as well, and compute it on them.",
        "protocol": "What arrives at a worker is not what the server had. Do the sender and the "
        "receiver of each message agree what it is, and is the buffer still in use when the next "
        "one is written?",
        "mean": "That is one step for the mean over the workers. Asynchronous SGD takes a step for "
        "each gradient as it arrives, with the whole learning rate.",
        "lost": "A gradient that was computed has to be applied, however late it comes: the bound "
        "is kept by letting fast workers wait, not by throwing the slow one's work away. And is "
        "the last gradient of each worker received before serve returns?",
        "twice": "A gradient was applied more than once: apply what was received in this turn, and "
        "nothing that was there before.",
        "sign": "Downhill: weights - learning_rate * gradient.",
        "steps": "Each worker computes `steps` gradients, no more and no less.",
        "types": "serve returns the server's weights: a float64 tensor of the shape that came in.",
        "limit": "A loop that never sees its end. Polling with is_completed() is one: with Gloo, a "
        "receive that has been asked for is complete only once somebody waits for it. "
        "dist.recv(tensor) without a source needs no polling.",
        "hang": "Count the messages of a worker: weights in, gradient out, `steps` times. Does the "
        "server receive all of them, does it send to nobody who has finished, and does everyone "
        "who was held back get the weights at last?",
    },
)
