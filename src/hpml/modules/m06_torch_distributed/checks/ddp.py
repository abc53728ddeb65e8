"""Exercise ddp: a module wrapper that averages gradients in buckets while backward still runs.

It is written in two stages, each worth half the points. The claims of STAGE_1 hold for a plain
average after backward, one all-reduce for each parameter; those of STAGE_2 need buckets, and
messages that leave while backward runs.

The kernel counts what was sent, and on a busy machine some of it is sent twice. So a rank that sent
too much is measured a second time, where it has to be right as well.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from hpml.checks.compare import state_difference
from hpml.checks.contract import CannotJudge, Check, Claim, Problem, Run, Stage, fault
from hpml.checks.kits.ready_made import ALL_ELSE, DATA_PARALLEL
from hpml.modules.m06_torch_distributed.checks._buckets_picture import buckets_picture
from hpml.modules.m06_torch_distributed.checks._gradient_calls import (
    as_little_as_a_ring,
    few_messages,
    not_awaited,
    overlaps,
    travels_once,
)
from hpml.modules.m06_torch_distributed.checks._wrapped_training import (
    AGAIN,
    BUFFERS,
    FLOAT32_AT,
    REFUSED,
    STEPS,
    drive,
    expect,
    inputs,
    serial,
    serve,
)
from hpml.ranks.evidence import Evidence

# In 200 draws rounding came to 7e-5 at most; the usual mistakes are off by 0.17 and more
FLOAT32_TOLERANCE = 1e-3


def tolerance(run: Run) -> float:
    """Only the order of additions may differ."""
    return FLOAT32_TOLERANCE if run.world_size in FLOAT32_AT else 1e-9


def start_differs(run: Run, names: Sequence[str], what: str, hint: str) -> Problem | None:
    states = [rank["state"] for rank in run.inputs["one model"]]
    for ours, theirs in itertools.combinations(states, 2):
        assert all(not torch.equal(ours[name], theirs[name]) for name in names), "ranks start alike"
    expected = {name: states[0][name] for name in names}
    for rank, value in enumerate(run.stages["one model"].values):
        got = {name: tensor for name, tensor in value["start"].items() if name in expected}
        if found := state_difference(got, expected):
            seen = f"after construction, rank {rank} does not have rank 0's {what}: {found}"
            untouched = not state_difference(value["after"][-1], value["start"])
            return Problem(seen, "unchanged" if untouched else hint, found.expected)
    return None


def starts_from_rank_0(run: Run) -> Problem | None:
    names = [name for name in run.expected["one model"]["start"] if name not in BUFFERS]
    problem = start_differs(run, names, "parameters", "no_broadcast")
    if problem and problem.hint == "no_broadcast":
        trained = [name for name in names if not name.startswith("frozen.")]
        if start_differs(run, trained, "", "") is None:
            return replace(problem, hint="frozen_start")
    return problem


def starts_with_buffers(run: Run) -> Problem | None:
    return start_differs(run, BUFFERS, "buffers", "buffers")


def parity(run: Run, stage: str, hint: str) -> Problem | None:
    """Whether each rank's states equal, step by step, those of one process with the whole batch."""
    if problem := starts_from_rank_0(run) or starts_with_buffers(run):
        return problem
    expected = run.expected[stage]
    for step in range(STEPS):
        for rank, value in enumerate(run.stages[stage].values):
            got = value["after"][step]
            found = state_difference(got, expected["after"][step], tolerance(run))
            if found is None:
                continue
            firsts = [own["batches"][0] for own in run.inputs[stage]]
            start = expected["start"]
            summed = serial(start, [firsts], 1)[0]
            if step == 0 and not state_difference(got, summed, tolerance(run)):
                return Problem(
                    f"after step 1, the weights are those of gradients added up over "
                    f"{run.world_size} ranks, not averaged",
                    "sum",
                )
            if step == 0 and not state_difference(got, expected["start"]):
                return Problem(
                    f"after step 1, rank {rank}'s weights have not changed at all", "unchanged"
                )
            alone = serial(start, [[firsts[rank]]], 1)[0]
            if step == 0 and not state_difference(got, alone, tolerance(run)):
                return Problem(
                    f"after step 1, rank {rank}'s weights are those of its own batch alone", "alone"
                )
            if not_awaited(run.stages[stage].ranks[rank], run.world_size, step):
                return Problem(
                    f"in step {step + 1}, synchronize returned on rank {rank} before its messages "
                    "were there",
                    "not_awaited",
                )
            return Problem(
                f"after step {step + 1}, rank {rank}'s weights are not those of one process on the "
                f"whole batch: {found}",
                hint,
                found.expected,
            )
    return None


def equals_big_batch(run: Run) -> Problem | None:
    return parity(run, "one model", "parity")


def unused_counts_as_zero(run: Run) -> Problem | None:
    if problem := fault(run.stages["two branches"]):
        return problem
    problem = parity(run, "two branches", "unused")
    if problem and problem.hint == "unused" and (before := equals_big_batch(run)):
        return replace(problem, hint=before.hint)  # it is wrong where all parameters are used, too
    return problem


def adds_up_or_refuses(run: Run) -> Problem | None:
    if problem := unused_counts_as_zero(run):
        return problem
    first, both = run.expected["two branches"]["sums"]
    where = "after a second backward() before synchronize()"
    for rank, value in enumerate(run.stages["two branches"].values):
        got = value["together"]
        if got == REFUSED:
            continue
        if isinstance(got, str):
            return Problem(f"{where}, rank {rank} raised no RuntimeError but {got[:200]}", "twice")
        if not state_difference(got, first, tolerance(run)):
            return Problem(
                f"{where}, rank {rank}'s gradients are the means of the first backward() alone",
                "twice",
            )
        if found := state_difference(got, both, tolerance(run)):
            return Problem(
                f"{where}, rank {rank}'s gradients are not the means of both together: {found}",
                "twice",
                found.expected,
            )
    return None


def sends_little(run: Run) -> Problem | CannotJudge | None:
    problem = as_little_as_a_ring(run.stages["one model"])
    again = run.stages.get(AGAIN)
    if isinstance(problem, Problem) and again is not None:
        problem = fault(again) or as_little_as_a_ring(again) or parity(run, AGAIN, "parity")
    if isinstance(problem, Problem) and problem.hint == "wire" and (more := travels_once(run)):
        return replace(problem, hint=more.hint)
    return problem


def sent_much(inputs: Any, found: Mapping[str, Evidence]) -> bool:
    """Whether a rank sent too much, and is to be measured again."""
    problem = as_little_as_a_ring(found["one model"])
    return isinstance(problem, Problem) and problem.hint == "wire"


STAGE_1 = (
    Claim("every rank starts from rank 0's parameters", 2, starts_from_rank_0),
    Claim("every rank starts with rank 0's buffers", 1, starts_with_buffers),
    Claim("each step is that of one process on the whole batch", 2, equals_big_batch),
    Claim("a layer that some ranks did not use is averaged too", 2, unused_counts_as_zero),
    Claim("a second backward() adds up, or is refused", 1, adds_up_or_refuses),
    Claim("a tied weight travels once, a frozen one never", 1, travels_once, of_calls=True),
    Claim("no rank sends more than a ring needs", 1, sends_little),
)
STAGE_2 = (
    Claim("gradients travel in a few full buckets", 4, few_messages, of_calls=True),
    Claim("buckets leave while backward runs, and wait for nothing", 6, overlaps, of_calls=True),
)

CHECK = Check(
    id="ddp",
    title="Data parallel by hand",
    names=("DataParallel",),
    to_write="the wrapper",
    allowed=f"{ALL_ELSE}, hooks of autograd and collectives too",
    not_allowed=(DATA_PARALLEL,),
    inputs=inputs,
    expect=expect,
    stages=(
        Stage("one model", drive, link="1gbit", serve=serve),
        Stage("two branches", drive, dies=True, serve=serve),
        Stage(AGAIN, drive, dies=True, link="1gbit", serve=serve, when=sent_much),
    ),
    timeout=30.0,
    picture=buckets_picture,
    claims=(*STAGE_1, *STAGE_2),
    hints={
        "start": "What must be equal on all ranks before the first step, and what before each "
        "optimizer step? Stage 1 needs two places: __init__ makes the ranks alike, and "
        "synchronize replaces each p.grad by its mean over the ranks, one all_reduce for each "
        "trained parameter. Stage 2 adds buckets to __init__, and a hook that sends a bucket as "
        "soon as its gradients are there.",
        "no_broadcast": "Averaging gradients keeps equal weights equal. It does not make different "
        "weights equal: who has the weights that count when training starts?",
        "frozen_start": "A frozen parameter takes part in the forward pass. Nothing ever trains "
        "it, so what differs at the start differs for good: it needs rank 0's value like all "
        "others.",
        "buffers": "A model's state is more than what the optimizer changes. Think of a batch "
        "norm: its running mean is a buffer, and so is its count of batches, an integer. "
        "parameters() lists neither, buffers() both.",
        "sum": "all_reduce adds up. Each rank's loss is a mean over its own share; the loss of the "
        "whole batch is the mean of those. A sum is a learning rate that grows with the ranks.",
        "alone": "The optimizer reads p.grad. What you reduced is a tensor of your own until its "
        "content stands there.",
        "unchanged": "The module you were given did not change: wrap it, do not copy it, and leave "
        "the gradients in its own parameters.",
        "parity": "Follow one gradient: into its place in a bucket, through the reduction, out of "
        "the same place, in the same dtype, in every step anew. The last bucket may not be full: "
        "does it leave, too?",
        "unused": "A parameter without a gradient in this step fires no hook, and its p.grad is "
        "None (not last step's value). Others still wait for its bucket: what does this rank add "
        "to the sum, and when? The mean is over all ranks, not only over those that used it.",
        "twice": "PyTorch adds a gradient to the p.grad that is there. What you sent is what stood "
        "there when it left, and synchronize puts the mean of that in its place. Who finds out "
        "that a hook is called once more for a bucket that has left?",
        "tied": "One tensor under two names is one parameter with one gradient. Which of PyTorch's "
        "ways to list parameters knows that?",
        "frozen": "Where requires_grad is False there will never be a gradient to average.",
        "bytes": "Count what one step has to send: each trained parameter's gradient, once, in its "
        "own dtype.",
        "messages": "Every message costs its latency. A bucket is there so that many small "
        "gradients share one message. If you average one gradient after the other, stage 1 is "
        "done, and buckets are the next step.",
        "one_bucket": "bucket_bytes says when a bucket is full; only a parameter that is larger "
        "than that makes a larger message, alone. One message with everything in it cannot leave "
        "before everything is there.",
        "rule": "Parameters are taken in one order, last one first, and only the bucket that was "
        "opened last is filled. Add up the bytes with each parameter: it fits as long as "
        "bucket_bytes are not exceeded, also if the bucket is then full to the byte; only one that "
        "does not fit opens the next bucket, and one larger than bucket_bytes is alone.",
        "not_awaited": "An asynchronous all_reduce returns at once, with a handle, and the mean is "
        "there when the handle's wait() has returned. Which of them does synchronize wait for, "
        "before it puts the means into p.grad?",
        "after_backward": "While backward computes the first layers, the last layers' gradients "
        "have been ready for long. PyTorch can tell you when one is: "
        "Tensor.register_post_accumulate_grad_hook.",
        "late": "Some of it leaves while backward runs, but late. Buckets leave in their order, so "
        "the first one is to hold what backward computes first: the last layers' gradients. And a "
        "bucket leaves when its last gradient is there: a large one, late.",
        "waiting": "Sending and waiting are two things. A call that returns only when the message "
        "has arrived holds up its caller: in a hook that is backward, in a thread of your own it "
        "is the next bucket. An asynchronous one returns at once. Who waits for it, and when?",
        "wire": "To average n bytes over p ranks, each rank must send 2 (p-1)/p · n; a ring sends "
        "no more. Everyone's gradients on every rank, or all of them through one rank, are more. "
        "Which single collective makes the sum where it is needed?",
        "mismatch": "Collectives have no names: the third call on one rank meets the third on the "
        "others. Gradients may become ready in another order there, and some never: do all ranks "
        "send the same buckets in one order, on which they agree beforehand? And is a bucket "
        "equally long on a rank that lacks some of its gradients?",
        "raised": "Start from the exception: it names a line of your answer. If something is None: "
        "in the case of two branches each rank uses only one of them, and has no gradients of the "
        "other. If a shape does not fit: gradients come out of a bucket in the order and the sizes "
        "in which they went in.",
        "hang": "Every rank must send every bucket in every step, even one whose gradients never "
        "came. Who sends it then?",
    },
)
