"""Exercise hvd_keras: the serial script in Keras, made data parallel with Horovod's callbacks.

`train(model, x, y, epochs, batch_per_rank, learning_rate, warmup_epochs) -> dict`.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch

from hpml.checks.compare import Difference, described, state_difference
from hpml.checks.contract import Check, Claim, Problem, Run
from hpml.checks.kits.gradients_travel import wrong_traffic
from hpml.checks.kits.ready_made import ANYTHING
from hpml.checks.kits.served_samples import batches_of, taken_by
from hpml.checks.kits.shares import wrong_amount
from hpml.modules.m05_horovod.checks._keras_script import (
    BATCH,
    EPOCHS,
    LEARNING_RATE,
    LENGTH,
    Weights,
    drive,
    expect,
    gradient_of,
    inputs,
    rate_at,
    serve,
)

TOLERANCE = 1e-6  # weights are float64; Keras keeps the learning rate in float32
METRIC_TOLERANCE = 1e-4  # and metrics too
NAMES = ("inner kernel", "inner bias", "outer kernel", "outer bias")


def differs(got: Any, weights: Weights) -> Difference | None:
    named = dict(zip(NAMES, weights, strict=True))
    if not isinstance(got, list) or len(got) != len(NAMES):
        return Difference(f"the weights are {described(got)}", f"a list of {len(NAMES)}")
    tensors = (torch.from_numpy(weight) for weight in got)
    return state_difference(dict(zip(NAMES, tensors, strict=True)), named, TOLERANCE)


def path_of(run: Run) -> dict[str, Any]:
    """The expected run for ranks that were given equal weights when these were."""
    first = [value["seen"][0]["weights"] for value in run.values if value["seen"]]
    start = run.expected[True]["states"][0]
    at_once = all(not differs(got, mine) for got, mine in zip(first, start, strict=False))
    return run.expected[at_once]


def shares_samples(run: Run) -> Problem | None:
    steps = LENGTH // (BATCH * run.world_size)
    batches = [batches_of(rank) for rank in run.evidence.ranks]
    taken = [taken_by(rank) for rank in run.evidence.ranks]
    if problem := wrong_amount(taken, LENGTH, EPOCHS, "never trained the model that it was given"):
        return problem
    for rank, own in enumerate(batches):
        if len(own) != steps * EPOCHS:
            return Problem(
                f"rank {rank} took {len(own)} steps",
                "batch",
                f"{steps * EPOCHS}, with batches of {BATCH} on each rank",
            )
    for step in range(steps * EPOCHS):
        first = step % steps * BATCH * run.world_size
        together = itertools.chain(*(own[step] for own in batches))
        if sorted(together) != list(range(first, first + BATCH * run.world_size)):
            return Problem(
                f"in step {step + 1} the ranks together do not take the next "
                f"{BATCH * run.world_size} samples",
                "order",
            )
    return None


def alike_after_the_first_step(run: Run) -> Problem | None:
    for rank, value in enumerate(run.values):
        if len(value["seen"]) < 2:
            return Problem(f"rank {rank} took {len(value['seen'])} steps", "samples")
        got, reference = value["seen"][1]["weights"], run.values[0]["seen"][1]["weights"]
        if found := differs(got, [torch.from_numpy(weight) for weight in reference]):
            return Problem(
                f"after the first step, rank {rank} does not have rank 0's weights: {found}",
                why_not_alike(run),
                found.expected,
            )
    return None


def why_not_alike(run: Run) -> str:
    """The hint: ranks with equal weights at the start that differ now averaged no gradients."""
    first = [value["seen"][0]["weights"] for value in run.values]
    same = all(not differs(got, [torch.from_numpy(w) for w in first[0]]) for got in first)
    return "not_wrapped" if same else "no_broadcast"


def rate_warms_up(run: Run) -> Problem | None:
    steps = LENGTH // (BATCH * run.world_size)
    for rank, value in enumerate(run.values):
        rates = [step["rate"] for step in value["seen"]]
        if len(rates) != steps * EPOCHS:
            return shares_samples(run) or Problem(
                f"rank {rank}'s learning rate was seen in {len(rates)} steps",
                "batch",
                f"{steps * EPOCHS}",
            )
        for step, rate in enumerate(rates):
            wanted = rate_at(step, steps, run.world_size)
            if math.isclose(rate, wanted, rel_tol=1e-5):
                continue
            return Problem(
                f"in step {step + 1} of {len(rates)}, rank {rank}'s learning rate is {rate:.5g}",
                why_rate(rates, run.world_size),
                f"{wanted:.5g}",
            )
    return None


def why_rate(rates: Sequence[float], world_size: int) -> str:
    scaled = LEARNING_RATE * world_size
    if rates[-1] <= LEARNING_RATE * 1.001:
        return "unscaled"
    if math.isclose(rates[0], scaled, rel_tol=1e-5) and math.isclose(
        rates[-1], scaled, rel_tol=1e-5
    ):
        return "no_warmup"
    return "warmup"


def goes_where_the_serial_script_goes(run: Run) -> Problem | None:
    if problem := shares_samples(run) or alike_after_the_first_step(run):
        return problem
    states = path_of(run)["states"]
    for step, rank in itertools.product(range(1, len(states)), range(run.world_size)):
        value = run.values[rank]
        got = value["seen"][step]["weights"] if step < len(value["seen"]) else value["final"]
        if found := differs(got, states[step][rank]):
            if problem := rate_warms_up(run):
                return problem
            return Problem(
                f"after step {step}, rank {rank}'s weights are not those of one process with the "
                f"larger batch: {found}",
                why_weights(run, step, rank, got),
                found.expected,
            )
    gradient = sum(weight.nbytes for weight in states[0][0])
    return wrong_traffic(run.evidence, gradient, len(states) - 1)


def why_weights(run: Run, step: int, rank: int, got: Any) -> str:
    """The hint: were gradients added up, or only this rank's used?"""
    path, steps = path_of(run), LENGTH // (BATCH * run.world_size)
    before, after = path["states"][step - 1][rank], path["states"][step][rank]
    if step == 1 and run.world_size > 1:
        start = path["states"][0][0]
        summed = [s + run.world_size * (a - s) for s, a in zip(start, after, strict=True)]
        if not differs(got, summed):
            return "sum"
        x, y = (torch.from_numpy(run.inputs[0][name]) for name in "xy")
        share = slice(rank, BATCH * run.world_size, run.world_size)
        rate = rate_at(0, steps, run.world_size)
        own = gradient_of(before, x[share], y[share])
        if not differs(got, [w - rate * g for w, g in zip(before, own, strict=True)]):
            return "not_wrapped"
    return "weights"


def metrics_are_everybodys(run: Run) -> Problem | None:
    if problem := shares_samples(run):  # else there was nothing to average
        return problem
    for rank, value in enumerate(run.values):
        history = value["history"]
        if not isinstance(history, dict):
            return Problem(f"train returned {described(history)} on rank {rank}", "history")
        for name in ("loss", "accuracy"):
            got = history.get(name)
            if not isinstance(got, list) or len(got) != EPOCHS:
                return Problem(
                    f"rank {rank}'s history[{name!r}] is {described(got)}, not one number per "
                    f"epoch, which is a list of {EPOCHS}",
                    "history",
                )
            wanted = path_of(run)[name].mean(1).tolist()
            own = path_of(run)[name][:, rank].tolist()
            for epoch, (ours, theirs) in enumerate(zip(got, wanted, strict=True)):
                if abs(ours - theirs) <= METRIC_TOLERANCE:
                    continue
                problem = goes_where_the_serial_script_goes(run)
                hint = problem.hint if problem else "metrics"
                if all(abs(a - b) <= METRIC_TOLERANCE for a, b in zip(got, own, strict=True)):
                    hint = "own_metrics"
                return Problem(
                    f"rank {rank}'s {name} of epoch {epoch} is {ours:.4f}",
                    hint,
                    f"{theirs:.4f}, the mean over all ranks",
                )
    return None


def prints_once(run: Run) -> Problem | None:
    for rank, evidence in enumerate(run.evidence.ranks):
        talks = "Epoch " in evidence.stdout or "loss:" in evidence.stdout
        if rank and talks:
            return Problem(f"rank {rank} prints its progress too", "everyone_prints")
        if not rank and not talks:
            return Problem("rank 0 prints no progress", "prints")
    return None


ALL_RANKS = (
    "Horovod's callbacks and its optimizer take all ranks. Is one of them behind an "
    "`if hvd.rank() == 0`?"
)


CHECK = Check(
    id="hvd_keras",
    title="A serial Keras script with Horovod",
    names=("train",),
    to_write="the script for all ranks",
    allowed=ANYTHING,
    flavour="horovod-tensorflow",
    process_group=False,
    prints=True,
    inputs=inputs,
    drive=drive,
    serve=serve,
    expect=expect,
    timeout=60.0,
    claims=(
        Claim("the ranks share the samples", 2, shares_samples),
        Claim("from the first step on, all have the same weights", 2, alike_after_the_first_step),
        Claim("the rate rises to that of all ranks", 2, rate_warms_up),
        Claim(
            "each step is that of one process with the larger batch",
            5,
            goes_where_the_serial_script_goes,
            of_calls=True,
        ),
        Claim("loss and accuracy are those of all ranks", 3, metrics_are_everybodys),
        Claim("rank 0 prints its progress, the others nothing", 1, prints_once),
    ),
    hints={
        "start": "Go through the serial script and ask of each line: the same on every rank, a "
        "share on every rank, or on rank 0 alone? init, the samples, the optimizer, three "
        "callbacks, and who prints.",
        "no_shard": "Ranks that all see all samples do the same work several times. x[rank::size] "
        "is one way to deal them out.",
        "no_samples": "The check looks at what the model is trained with that train was given: "
        "call fit of that one.",
        "samples": "The shares of all ranks together are the samples, each once per epoch.",
        "batch": "batch_per_rank is what each rank takes in one step: with more ranks, a step has "
        "more samples and an epoch fewer steps.",
        "order": "In step k the ranks together take the samples that follow those of step k - 1: "
        "deal them out in turn, and leave shuffle=False.",
        "no_broadcast": "Averaging gradients keeps equal weights equal. It does not make different "
        "weights equal: one of Horovod's callbacks does, after the first batch.",
        "not_wrapped": "Only hvd.DistributedOptimizer averages gradients. Which optimizer was the "
        "model compiled with?",
        "sum": "What are the ranks' gradients put together with: op=hvd.Average, the default, or "
        "a sum? The learning rate is scaled already.",
        "unscaled": "With W ranks a step has W times the samples, and there are W times fewer "
        "steps: the rate that training ends with is W times one rank's (Goyal et al. 2017). The "
        "callback's initial_lr is that one, and what it starts from it works out by itself.",
        "no_warmup": "At the start the weights change quickly, and a large rate overshoots. The "
        "callback lets it rise in the course of warmup_epochs.",
        "warmup": "The rate rises in every step, from one rank's to W times that, until "
        "warmup_epochs are over; then it stays.",
        "weights": "Same start, same samples, same rate, other weights: look at the loss and at "
        "the optimizer.",
        "history": "Return model.fit(...).history: a dict with one number per epoch for each "
        "metric.",
        "refused": "Return model.fit(...).history, not the object that fit returns: it is a dict "
        "with one number per epoch for each metric.",
        "own_metrics": "Keras computes loss and accuracy from the samples that this rank has seen. "
        "A reader of the log wants those of all: a callback averages them at the end of each "
        "epoch.",
        "metrics": "Averages are over all ranks, of what each had seen in the epoch.",
        "everyone_prints": "256 ranks that print give 256 lines per epoch: verbose is for one of "
        "them.",
        "prints": "Somebody reads the log: rank 0 prints as the serial script does.",
        "raised": "Start from the exception: it names a line of your answer. If Horovod is not "
        "initialized: hvd.init() comes before anything else of it. If a float has no dtype: that "
        "is the optimizer's momentum, which the callback for the rate wants to correct; "
        "momentum_correction=False.",
        "hang": ALL_RANKS,
        "mismatch": ALL_RANKS,
    },
)
