"""Exercise tensor_parallel: a pair of linear layers, then attention, split over the ranks.

`ParallelMLP(features, hidden, read)` and `ParallelAttention(features, heads, read)`, modules that
read their share of an unsplit layer's weights.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from hpml.answer.rules import ReadyMade
from hpml.checks.compare import difference
from hpml.checks.contract import Check, Claim, Problem, Run, Stage, fault
from hpml.checks.kits.ready_made import ALL_ELSE
from hpml.modules.m07_hybrid_parallelism.checks._parallel_layers import (
    BATCH,
    FEATURES,
    PHASES,
    STAGES,
    STEPS,
    TOKENS,
    drive,
    expect,
    inputs,
    reads,
    serve,
    shapes,
    share,
    split_along,
)
from hpml.modules.m07_hybrid_parallelism.checks._slices_picture import slices_picture
from hpml.ranks.evidence import Call, RankEvidence

TOLERANCE = 1e-9  # float64: only the order of additions may differ
MESSAGE = 8 * BATCH * TOKENS * FEATURES  # bytes of an input or an output
DTENSOR = ReadyMade(
    "`parallelize_module` and `DTensor`",
    (
        "torch.distributed.tensor.parallel.api.parallelize_module",
        "torch.distributed.tensor._api.DTensor",
        "torch.distributed.tensor._api.distribute_tensor",
        "torch.distributed.tensor._api.distribute_module",
    ),
)


def steps_of(rank: RankEvidence) -> list[tuple[list[Call], list[Call]]]:
    """The calls of each step's forward and of its backward, by the parent's times."""
    moments = {
        phase: [asked.at for asked in rank.asked if asked.request == phase and not asked.refused]
        for phase in PHASES
    }
    return [
        tuple(
            [call for call in rank.calls if begin <= call.issued <= end]
            for begin, end in ((start, middle), (middle, over))
        )
        for start, middle, over in zip(*moments.values(), strict=True)
    ]


def problem_of(run: Run, stage: str, part: int, hint: str) -> Problem | None:
    """Whether all ranks have the outputs (part 0), or the inputs' gradients (1), of the unsplit
    layer in every step."""
    if problem := fault(run.stages[stage]):
        return problem
    what = ("the output", "the gradient of the input")[part]
    name, expected = STAGES[stage], run.expected[stage]
    for step in range(STEPS):
        for rank, value in enumerate(run.stages[stage].values):
            if not isinstance(value, list) or len(value) != STEPS:  # the drive's own
                return Problem(f"{name}, rank {rank}: it did not train", "start")
            got, right = value[step][part], expected["right"][step][part]
            if found := difference(got, right, TOLERANCE):
                seen = f"{name}, step {step + 1}, rank {rank}: {what} {found}"
                if found.expected:
                    return Problem(seen, "types", found.expected)
                why = cause(run, stage, step, part, rank) or hint
                return (not_trained(run, stage) if why == "training" else None) or Problem(
                    seen, why
                )
    return None


def not_trained(run: Run, stage: str) -> Problem | None:
    """The weights that are not among a rank's parameters, so that nothing updates them."""
    for rank, ((*_, lacking), *_) in enumerate(run.stages[stage].values):
        if lacking:
            seen = f"{STAGES[stage]}, rank {rank}: parameters() lacks {', '.join(lacking)}"
            return Problem(seen, "parameters")
    return None


def cause(run: Run, stage: str, step: int, part: int, rank: int) -> str:
    """The hint for the mistake that explains a wrong value; "" where none does."""
    values = [value[step][part] for value in run.stages[stage].values]
    right = run.expected[stage]["right"][step][part]
    got, size = values[rank], run.world_size
    if part == 1:
        if same(got, right / size):
            return "mean"
        if same(got, size * right):
            return "twice"
        return "partial_gradient" if same(sum(values), right) else ""
    if same(got, run.expected[stage]["added"][step][part]):
        return "bias"
    if (
        step
    ):  # an update was wrong: because of a gradient that came back wrong, or of a weight's own
        wrong = [n for n in range(step) if not gradients_agree(run, stage, n)]
        return (cause(run, stage, wrong[0], 1, rank) or "backward") if wrong else "training"
    alike = all(value.shape == right.shape for value in values)
    if alike and not all(same(value, values[0]) for value in values):
        return "partial"
    bias = list(run.inputs[stage][0]["weights"].values())[-1]
    return "mean" if same(got, (right - bias) / size + bias) else ""


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return difference(one, other, TOLERANCE) is None


def gradients_agree(run: Run, stage: str, step: int) -> bool:
    """Whether every rank has the right gradient of the step's input."""
    right = run.expected[stage]["right"][step][1]
    return all(same(value[step][1], right) for value in run.stages[stage].values)


def forward_is_whole(run: Run, stage: str) -> Problem | None:
    return problem_of(run, stage, 0, "forward")


def backward_is_whole(run: Run, stage: str) -> Problem | None:
    problem, output = problem_of(run, stage, 1, "backward"), forward_is_whole(run, stage)
    if problem and problem.hint == "backward" and output and output.hint == "forward":
        return output  # what is wrong on the way there is wrong on the way back
    return problem


def attention_is_whole(run: Run) -> Problem | None:
    return problem_of(run, "attention", 0, "heads") or problem_of(run, "attention", 1, "backward")


def one_each_way(run: Run, stage: str) -> Problem | None:
    """Whether each rank makes one all-reduce in forward and one in backward, and no other call."""
    if problem := fault(run.stages[stage]):
        return problem
    name = STAGES[stage]
    if run.world_size == 1:
        return None
    for rank in run.stages[stage].ranks:
        steps = steps_of(rank)
        inside = sum(len(forward) + len(backward) for forward, backward in steps)
        if others := len(rank.calls) - inside:
            seen = f"{name}: rank {rank.rank} makes {others} calls outside of forward and backward"
            return Problem(seen, "outside")
        for step, calls in enumerate(steps, 1):
            for where, made in zip(("forward", "backward"), calls, strict=True):
                seen = f"{name}, step {step}: in {where}, rank {rank.rank}"
                other = [call for call in made if call.operation != "all_reduce"]
                if other:
                    return Problem(f"{seen} calls {other[0].operation}", "other_calls")
                if len(made) != 1:
                    hint = "none" if not made else "too_many"
                    return Problem(f"{seen} makes {len(made)} all-reduces", hint, "one")
                if made[0].nbytes != MESSAGE:
                    sent = f"{seen} puts {made[0].nbytes} bytes into its all-reduce"
                    return Problem(sent, "bytes", str(MESSAGE))
    return None


def reads_its_share(run: Run, stage: str) -> Problem | None:
    """Whether each rank reads its slice of the split weights, all of the others, and no more."""
    if problem := fault(run.stages[stage]):
        return problem
    if run.world_size == 1:
        return None
    hidden = run.inputs[stage][0]["hidden"]
    whole, along = shapes(stage, hidden), split_along(stage)
    for rank in run.stages[stage].ranks:
        mine = share(stage, hidden, rank.rank, run.world_size)
        taken: dict[str, list[tuple[int, int, int]]] = {name: [] for name in whole}
        for name, dim, start, stop in reads(rank):
            taken[name].append((dim, start, stop))
        for name, slices in taken.items():
            dim = along[name]
            seen = f"{STAGES[stage]}: rank {rank.rank}"
            if dim is None:
                if not covered(slices, whole[name]):
                    return Problem(f"{seen} does not read the whole of {name}", "whole_bias")
                continue
            wrong = [(d, a, b) for d, a, b in slices if d != dim or a < mine[0] or b > mine[1]]
            if wrong:
                d, a, b = wrong[0]
                hint = share_hint(stage, dim, (d, b - a), whole[name])
                text = f"{seen} reads {a} to {b} along dimension {d} of {name}"
                return Problem(text, hint, f"{mine[0]} to {mine[1]} along dimension {dim}")
            if sum(b - a for _, a, b in slices) < mine[1] - mine[0]:
                return Problem(f"{seen} does not read all of its share of {name}", "share")
    return None


def covered(slices: Sequence[tuple[int, int, int]], shape: Sequence[int]) -> bool:
    return sum(stop - start for _, start, stop in slices) >= shape[0]


def share_hint(stage: str, dim: int, read: tuple[int, int], shape: Sequence[int]) -> str:
    """`read` is the dimension along which a rank read, and how many elements."""
    if read == (read[0], shape[read[0]]):
        return "everything"
    if read[0] != dim:
        return "dimension"
    return "whole_heads" if stage == "attention" else "share"


def of(judge: Callable[..., Any], stage: str) -> Callable[[Run], Any]:
    return partial(judge, stage=stage)


CHECK = Check(
    id="tensor_parallel",
    title="Column, then row",
    names=tuple(STAGES.values()),
    to_write="both layers, and what adds up their parts",
    allowed=f"{ALL_ELSE}, `torch.autograd.Function` and collectives too",
    not_allowed=(DTENSOR,),
    inputs=inputs,
    expect=expect,
    stages=tuple(
        Stage(stage, partial(drive, stage=stage), serve=serve, dies=stage == "attention")
        for stage in STAGES
    ),
    picture=slices_picture,
    claims=(
        Claim("the MLP's output is that of the unsplit one", 3, of(forward_is_whole, "mlp")),
        Claim("so is the gradient of its input", 2, of(backward_is_whole, "mlp")),
        Claim("one all-reduce forward, one backward", 2, of(one_each_way, "mlp"), of_calls=True),
        Claim("each rank reads its share of the weights", 1, of(reads_its_share, "mlp")),
        Claim("attention, split by heads, is that of the unsplit one", 4, attention_is_whole),
        Claim("with one all-reduce each way", 2, of(one_each_way, "attention"), of_calls=True),
        Claim("each rank reads the weights of its heads", 1, of(reads_its_share, "attention")),
    ),
    hints={
        "start": "Y = GELU(X A) B. Cut A into columns: which numbers of X A can a rank compute, "
        "and can it apply GELU to them alone? Which rows of B do they meet, and what is missing "
        "then?",
        "forward": "Each rank computes its part of the sum over the hidden numbers. Is each hidden "
        "number on one rank? Follow one: a row of up.weight makes it, with its bias, and a column "
        "of down.weight uses it. Do your slices of the three belong together?",
        "partial": "The ranks' outputs differ: each has summed over its own hidden numbers. Whose "
        "sum is missing?",
        "mean": "That is the sum divided by the number of ranks. The parts of a sum are added up, "
        "not averaged.",
        "bias": "The last bias was added by every rank, and then the ranks were added up. Once is "
        "enough: where?",
        "training": "The first step is right, and after an update the outputs are not. Compare the "
        "gradients of each weight with the unsplit layer's. What is whole on every rank must be "
        "updated by the same gradient everywhere.",
        "parameters": "An optimizer updates what parameters() lists: each nn.Parameter that is an "
        "attribute of a module. A plain tensor is not among them, and what a list holds is not.",
        "backward": "In backward the way is mirrored: each rank's hidden numbers send a gradient "
        "back to all of x. What does x's gradient consist of?",
        "partial_gradient": "The ranks' gradients add up to the right one: x went into every "
        "rank's share, and each sends back its own part. What is the identity in forward is an "
        "all-reduce in backward.",
        "twice": "The gradient was added up over ranks that all have the same one. Behind the "
        "forward all-reduce each rank has the whole gradient already: its backward is the "
        "identity.",
        "none": "No call at all: parts of a sum on several ranks cannot meet without one.",
        "too_many": "One sum each way is enough. In forward, only the last layer's output is a "
        "sum over ranks. In backward, a rank first adds up what it has for the gradient of x, from "
        "all weights that use x, and that travels once.",
        "other_calls": "Nothing has to be gathered: a column of A meets only its own row of B, on "
        "the same rank. The output is a sum.",
        "bytes": "What is added up is the output, or in backward the gradient of the input: as "
        "many bytes as x has.",
        "outside": "Weights stay where they were read, and nothing is sent before forward begins.",
        "everything": "That is all of it. The point is that no rank has to hold the whole weight.",
        "dimension": "nn.Linear computes x Wᵀ, and its weight is [outputs, inputs]. Columns of A "
        "are outputs: rows of the weight. Rows of B are inputs.",
        "share": "Rank r has the r-th part that torch.tensor_split cuts; the first ranks have one "
        "more where it does not divide.",
        "whole_heads": "A head stays whole: cut the heads as torch.tensor_split does; each head is "
        "features / heads rows wide.",
        "whole_bias": "The last bias belongs to the output, which every rank has: it is not cut.",
        "heads": "The weights of head h are rows h·d to (h+1)·d of query, key and value, with d = "
        "features / heads, also in the scale 1/√d; and the columns h·d to (h+1)·d of out.",
        "types": "The output has the shape and dtype of x.",
        "raised": "Start from the exception. If sizes do not fit: a weight is [outputs, inputs]; "
        "which of its dimensions has the hidden numbers, or the heads? Shares of attention are "
        "counted in whole heads, each of d = features / heads numbers.",
        "hang": "Every rank has to make the same calls in the same order, backward too: does the "
        "input of one rank need no gradient?",
    },
)
