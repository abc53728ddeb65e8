"""Exercise sync_sgd: one step of SGD on all ranks together, equal to one process's on all samples.

`start(weights)` gives all ranks the same weights, `step(weights, x, y, learning_rate)` takes the
step; both return the weights. The loss is the mean of ½ (x·w - y)² over samples, so that mistakes
in averaging show in the weights.

A rank without samples has a launch of its own: where the others wait for it in vain, what was shown
before still counts.
"""

from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import torch

from hpml.checks.compare import difference
from hpml.checks.contract import Check, Claim, Problem, Run, Stage, fault
from hpml.checks.kits.ready_made import ALL_ELSE, DATA_PARALLEL
from hpml.modules.m01_parallel_sgd.checks._paths_picture import paths_picture
from hpml.ranks import mark

FEATURES = 6
STEPS = 2  # of each kind of shards
RATES = (0.25, 0.125)  # learning rates of these steps
TOLERANCE = 1e-9  # all is float64: only the order of additions may differ
PICKLED = 512  # bytes of a gradient and a count as an object; as a tensor, they are 56
LARGEST = 4 * PICKLED  # bytes per rank and step: a few gradients, but no samples
ADDED_UP = ("sum", "means", "twice")  # hints for weights that no rank has from its samples alone
KINDS = ("shards of one length", "shards of different lengths", "a rank without samples")
FILLED, LACKING = "ranks with samples", KINDS[2]  # stages
STARTS = {"own": "start", "own, again": "start, again"}  # what start is given, and its value
ROUNDING = 1e-6  # where weights differ by less than this from the right ones, it is float32's

Shard = list[torch.Tensor]  # x float64 (n, FEATURES) and y float64 (n,)


def inputs(seed: int, world_size: int) -> dict[str, list[dict[str, Any]]]:
    """By stage, for each rank: what `draw` makes, with that stage's kinds of shards."""
    ranks = draw(seed, world_size)

    def of(*kinds: str) -> list[dict[str, Any]]:
        return [rank | {"shards": {kind: rank["shards"][kind] for kind in kinds}} for rank in ranks]

    return {FILLED: of(*KINDS[:2]), LACKING: of(LACKING)}


def draw(seed: int, world_size: int) -> list[dict[str, Any]]:
    """For each rank: its own starting weights, twice, weights that all share, and its shards.

    Shards have different distributions, so that the mean of the ranks' means is far from the mean.
    Equal ones are so long that even their y are more bytes than gradients can be. In the second
    step a shard may have one sample, and where one rank had no samples, only one has any.
    """
    generator = torch.Generator().manual_seed(seed)

    def vector() -> torch.Tensor:
        return torch.randn(FEATURES, generator=generator, dtype=torch.float64)

    def shard(length: int, rank: int) -> Shard:
        x = torch.randn(length, FEATURES, generator=generator, dtype=torch.float64)
        noise = torch.randn(length, generator=generator, dtype=torch.float64)
        return [x, x @ laws[rank] + 0.1 * noise]

    laws = [3 * vector() for _ in range(world_size)]
    empty = int(torch.randint(0, world_size, (), generator=generator)) if world_size > 1 else None
    lone = None if empty is None else (empty + 1) % world_size
    order = torch.randperm(world_size, generator=generator).tolist()
    uneven = [40 + 104 * place for place in order]
    lengths = {
        KINDS[0]: [[1000] * world_size] * STEPS,
        KINDS[1]: [uneven, [1 if length == min(uneven) else length for length in uneven]],
        KINDS[2]: [
            [length * (rank != empty) for rank, length in enumerate(uneven)],
            [length * (lone in (rank, None)) for rank, length in enumerate(uneven)],
        ],
    }
    shared = vector()
    return [
        {
            **{own: vector() for own in STARTS},
            "shared": shared,
            "shards": {
                kind: [shard(of_step[rank], rank) for of_step in by_step]
                for kind, by_step in lengths.items()
            },
        }
        for rank in range(world_size)
    ]


def drive(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """What `start` returns for the rank's own weights, at two calls; the weights after each step,
    by shards."""
    found = {}
    for own, start in STARTS.items():
        mark(f"the {start}")
        got = answer.start(inputs[own].clone())
        found[start] = got.clone() if isinstance(got, torch.Tensor) else got
    return found | steps(answer, inputs)


def steps(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """The weights after each step, by shards."""
    after: dict[str, list[Any]] = {}
    for kind, shards in inputs["shards"].items():
        mark(kind)
        weights = inputs["shared"].clone()
        after[kind] = []
        for (x, y), rate in zip(shards, RATES, strict=True):
            weights = answer.step(weights, x.clone(), y.clone(), rate)
            after[kind].append(weights.clone() if isinstance(weights, torch.Tensor) else weights)
            if not isinstance(weights, torch.Tensor):
                break
    return {"after": after}


def gradient_sum(weights: torch.Tensor, shard: Shard) -> torch.Tensor:
    """The sum of the samples' gradients: xᵀ (x w - y)."""
    x, y = shard
    return x.T @ (x @ weights - y)


def big_batch(weights: torch.Tensor, shards: Sequence[Shard], rate: float) -> torch.Tensor:
    """The weights after one step of one process that has all shards' samples."""
    samples = sum(len(y) for _, y in shards)
    total = sum(gradient_sum(weights, shard) for shard in shards)
    return weights - rate * total / samples


def expect(inputs: dict[str, list[dict[str, Any]]], world_size: int) -> dict[str, Any]:
    """By kind of shards: the weights `after` each step, `first_rate`: after the last one with the
    rate of the first, and those of usual mistakes in the first.

    `means`: the ranks' means, divided by the ranks, or by the ranks with samples; `sum`: the means
    added up, or no division at all; `alone`: each rank's own step.
    """
    expected = {}
    for kind in KINDS:
        ranks = inputs[stage_of(kind)]
        steps = [[rank["shards"][kind][step] for rank in ranks] for step in range(STEPS)]
        weights, after = ranks[0]["shared"], []
        for shards, rate in zip(steps, RATES, strict=True):
            before, weights = weights, big_batch(weights, shards, rate)
            after.append(weights)
        start = ranks[0]["shared"]
        filled = [shard for shard in steps[0] if len(shard[1])]
        means = [gradient_sum(start, shard) / len(shard[1]) for shard in filled]
        totals: Any = sum(gradient_sum(start, shard) for shard in filled)
        added: Any = sum(means)

        def stepped(gradient: torch.Tensor, start: torch.Tensor = start) -> torch.Tensor:
            return start - RATES[0] * gradient

        samples = sum(len(y) for _, y in filled)
        expected[kind] = {
            "after": after,
            "first_rate": big_batch(before, steps[-1], RATES[0]),
            "mistakes": {
                "sum": [stepped(added), stepped(totals)],
                "means": [stepped(added / n) for n in (world_size, len(filled))],
                "twice": [stepped(totals / samples / world_size)],
                "alone": [stepped(mean) for mean in means],
                "unchanged": [start],
            },
        }
    return expected


def stage_of(kind: str) -> str:
    return LACKING if kind == LACKING else FILLED


def starts_alike(run: Run) -> Problem | None:
    problems = (wrong_start(run, own, start) for own, start in STARTS.items())
    return next(filter(None, problems), None)


def wrong_start(run: Run, own: str, start: str) -> Problem | None:
    given = [rank[own] for rank in run.inputs[FILLED]]
    root, mean = given[0], torch.stack(given).mean(0)
    first = run.inputs[FILLED][0]["own"]
    for rank, value in enumerate(run.stages[FILLED].values):
        got = value[start]
        if found := difference(got, root):
            if not isinstance(got, torch.Tensor):
                return Problem(
                    f"what start returns on rank {rank} {found}", "types", found.expected
                )
            seen = f"rank {rank} does not start from rank 0's weights: what start returns {found}"
            if own != "own" and not difference(got, first):
                return Problem(f"{seen}, and is that of the call before", "kept")
            if not difference(got, given[rank]):
                return Problem(f"{seen}, and is its own", "no_sync")
            averaged = not difference(got, mean, TOLERANCE)
            otherwise = "no_sync" if rank else "made_up"
            return Problem(seen, "start_mean" if averaged else otherwise, found.expected)
    return None


def misconception(
    mistakes: dict[str, list[torch.Tensor]], got: torch.Tensor, right: torch.Tensor
) -> str:
    """The hint for wrong weights after a first step: the usual mistake that explains them."""
    if not difference(got, right, ROUNDING):
        return "rounding"
    for hint, candidates in mistakes.items():
        if any(not difference(got, weights, TOLERANCE) for weights in candidates):
            return hint
    return "start"


def kind_of(tensor: torch.Tensor) -> tuple[torch.Size, torch.dtype]:
    return tensor.shape, tensor.dtype


def follows_the_big_batch(run: Run, kind: str) -> Problem | None:
    expected = run.expected[kind]
    for step, right in enumerate(expected["after"]):
        for rank, value in enumerate(run.stages[stage_of(kind)].values):
            after = value["after"][kind]
            got = after[step] if step < len(after) else None
            found = difference(got, right, TOLERANCE)
            if found is None:
                continue
            message = (
                f"{kind}: after step {step + 1}, rank {rank}'s weights are not those of one "
                f"process with all samples: what step returns {found}"
            )
            if not isinstance(got, torch.Tensor) or kind_of(got) != kind_of(right):
                hint = "types"
            elif not torch.isfinite(got).all():
                hint = "nan"
            else:
                hint = misconception(expected["mistakes"], got, right) if step == 0 else "start"
                if step and not difference(got, expected["first_rate"], TOLERANCE):
                    hint = "first_rate"
            return Problem(message, hint, found.expected)
    return None


def equal_shards(run: Run) -> Problem | None:
    return follows_the_big_batch(run, KINDS[0])


def uneven_shards(run: Run) -> Problem | None:
    return follows_the_big_batch(run, KINDS[1])


def no_samples(run: Run) -> Problem | None:
    if LACKING not in run.stages:
        return None  # one rank alone has all the samples
    if problem := fault(run.stages[LACKING]):
        own = {"hang": "without_samples", "raised": "empty"}
        return replace(problem, hint=own.get(problem.hint, problem.hint))
    problem = follows_the_big_batch(run, KINDS[2])
    # Here several mistakes give the same weights: what explains those of full shards does here.
    first = equal_shards(run) or uneven_shards(run)
    if problem is None or first is None or problem.hint in ("nan", "types"):
        return problem
    return replace(problem, hint=first.hint)


def samples_stay(run: Run) -> Problem | None:
    """By the recorded calls of every step, and of the start.

    Calls may be for show. That gradients have travelled, the weights show.
    """
    if run.world_size == 1:
        return None
    for rank in run.stages[FILLED].ranks:
        if not rank.calls:
            return Problem(f"rank {rank.rank} has told the others nothing", "alone")
    for stage, evidence in run.stages.items():
        steps = STEPS * (len(KINDS[:2]) if stage == FILLED else 1)
        most = LARGEST * (steps + len(STARTS) * (stage == FILLED))
        for rank in evidence.ranks:
            if (sent := sum(call.nbytes for call in rank.calls)) > most:
                return Problem(
                    f"{stage}: rank {rank.rank} put {sent} bytes into its calls; a gradient is "
                    f"{8 * FEATURES} bytes, and {steps} steps need no more than {most}",
                    "samples",
                )
    problem = equal_shards(run)
    return None if problem is None or problem.hint in ADDED_UP else problem


CHECK = Check(
    id="sync_sgd",
    title="One step on all ranks is one step on one big batch",
    names=("start", "step"),
    to_write="`start` and one step of SGD, on all ranks together",
    allowed=ALL_ELSE,
    not_allowed=(DATA_PARALLEL,),
    picture=paths_picture,
    inputs=inputs,
    stages=(
        Stage(FILLED, drive),
        Stage(LACKING, steps, world=lambda ranks: ranks if ranks > 1 else 0, dies=True),
    ),
    expect=expect,
    claims=(
        Claim("every rank starts from rank 0's weights", 2, starts_alike),
        Claim("a step on equal shards is that of one process", 3, equal_shards),
        Claim("so is a step on shards of different lengths", 3, uneven_shards),
        Claim("a rank without samples takes part and changes nothing", 1, no_samples),
        Claim("gradients travel, samples stay where they are", 1, samples_stay, of_calls=True),
    ),
    hints={
        "start": "Write down the gradient of the mean loss over all samples: a sum over all "
        "samples, divided by the number of all samples. Which part of the sum can this rank "
        "compute, and who adds up the parts?",
        "no_sync": "Equal gradients keep equal weights equal; they do not make different weights "
        "equal. Before the first step, one rank's weights have to get to all: dist.broadcast.",
        "made_up": "Rank 0 keeps the weights that were given to it, whatever they are: it may have "
        "loaded them from a file. No other weights are to be made; the other ranks get rank 0's: "
        "dist.broadcast.",
        "start_mean": "That is the mean of all starting weights. Rank 0's count: it may have "
        "loaded them from a file.",
        "kept": "start may be called again: it returns rank 0's weights of that call, and nothing "
        "that it has kept.",
        "first_rate": "The first step is right, and this one was taken with the first one's rate. "
        "Each call of step is given its own: learning_rate.",
        "sum": "Added up, and divided by too little or by nothing. The loss of the big batch is a "
        "mean over all samples of all ranks; with a sum, the learning rate grows with what was "
        "added up.",
        "means": "That is the mean of the ranks' means: a rank with 40 samples weighs as much as "
        "one with 144. It is right only while all shards are of one length. Sums can be added, and "
        "so can counts.",
        "twice": "Divided by the samples and by the ranks: one of the two is enough. Who has "
        "divided already?",
        "alone": "These are the weights after a step on one rank's own samples. The parts of the "
        "gradient have to meet: dist.all_reduce.",
        "unchanged": "The weights that came back are those that went in. w - learning_rate * g is "
        "a new tensor: return it.",
        "nan": "0 / 0: a mean over no samples. A rank without samples has a sum of gradients, "
        "which is zero, and a count, which is zero, too. Divide after both were added up.",
        "types": "start and step return the weights: a float64 tensor of the shape that came in.",
        "samples": "All samples on every rank is one process's work done N times. Of each shard "
        "only the sum of its gradients is needed elsewhere: as many numbers as there are weights.",
        "without_samples": "A rank without samples still has to take part in every call: the "
        "others wait for it.",
        "rounding": "The rule is right, and something was rounded on the way: weights and samples "
        "are float64, and a tensor of float32 among them keeps seven digits.",
        "hang": "Every rank has to make the same calls, as often as the others. Which rank leaves "
        "early, or goes another way through an `if`?",
        "mismatch": "All ranks must make the same calls in the same order, with tensors of one "
        "shape and dtype, whatever the length of their shard.",
        "empty": "A shard can have no samples: x is of shape (0, features) then, and y of shape "
        "(0,). Try yours with that.",
    },
)
