"""Exercise hvd_torch: a serial CIFAR-10 script, made data parallel with Horovod.

`train(model, dataset, epochs, batch_per_rank, learning_rate, seed, path) -> None`, first without a
checkpoint at `path`, then with one that rank 0 alone can read.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from hpml.checks.compare import Difference, described, state_difference
from hpml.checks.contract import Check, Claim, Problem, Run, Stage, fault
from hpml.checks.kits.gradients_travel import wrong_traffic
from hpml.checks.kits.ready_made import ANYTHING
from hpml.checks.kits.served_samples import serve_images
from hpml.checks.kits.shares import wrong_shares
from hpml.modules.m05_horovod.checks._torch_script import (
    BATCH,
    EPOCHS,
    LEARNING_RATE,
    LENGTH,
    PATH,
    drive,
    expect,
    inputs,
)
from hpml.ranks.evidence import Evidence
from hpml.ranks.supervisor.looking import MAX_FILES, first_below

TOLERANCE = 1e-9  # only the order of additions may differ


def differs(got: Any, expected: dict[str, torch.Tensor]) -> Difference | None:
    return state_difference(got, expected, TOLERANCE)


def wrong_samples(evidence: Evidence, order: Sequence[int]) -> Problem | None:
    """Whether in every step the ranks together take the next samples of `order`."""
    return wrong_shares(evidence, order, LENGTH, EPOCHS, BATCH * evidence.world_size)


def starts_alike(run: Run) -> Problem | None:
    for rank, value in enumerate(run.stages["begin"].values):
        first = run.expected["begin"]["states"][0]
        if len(value["states"]) < 2:
            return Problem(f"rank {rank} never called the model that it was given", "no_samples")
        if found := differs(value["states"][0], first):
            return Problem(
                f"in its first step, rank {rank} does not have rank 0's weights: {found}",
                "no_broadcast",
                found.expected,
            )
    return None


def shares_samples(run: Run) -> Problem | None:
    return wrong_samples(run.stages["begin"], run.expected["begin"]["taken"])


def goes_elsewhere(run: Run, stage: str) -> Problem | None:
    """The first step in which a rank's weights differ from the serial script's, and why."""
    evidence, expected = run.stages[stage], run.expected[stage]
    if problem := wrong_samples(evidence, expected["taken"]):
        return problem
    wanted = expected["states"]
    for step in range(len(wanted)):
        for rank, value in enumerate(evidence.values):
            if len(value["states"]) != len(wanted):
                return Problem(
                    f"rank {rank} called the model {len(value['states']) - 1} times",
                    "batch",
                    f"{len(wanted) - 1}, once in each step with batches of {BATCH} on each rank",
                )
            if found := differs(value["states"][step], wanted[step]):
                return why_elsewhere(run, stage, rank, step, found)
    gradient = sum(weight.nbytes for weight in wanted[0].values())
    return wrong_traffic(evidence, gradient, len(wanted) - 1)


def why_elsewhere(run: Run, stage: str, rank: int, step: int, found: Difference) -> Problem:
    expected, got = run.expected[stage], run.stages[stage].values[rank]["states"][step]
    if step == 0:
        what = "rank 0's weights" if stage == "begin" else "the weights of rank 0's checkpoint"
        hint = "no_broadcast" if rank else "load" if stage == "carry on" else "weights"
        seen = f"in its first step, rank {rank} does not have {what}: {found}"
        return Problem(seen, hint, found.expected)
    seen = f"after step {step}, rank {rank}'s weights are"
    if step == 1:
        words = {
            "unscaled": f"those of a learning rate of {LEARNING_RATE}",
            "old_rate": "those of the learning rate that the checkpoint has",
            "old_rate_scaled": "those of the checkpoint's learning rate times the number of ranks",
            "sum": "those of gradients added up over the ranks, not averaged",
            "no_optimizer": "those of an optimizer that starts anew, without its momentum",
        }
        for mistake, state in expected["mistakes"].items():
            if not differs(got, state):
                if mistake == "no_optimizer" and rank == 0:
                    return Problem(f"{seen} {words[mistake]}", "state_lost")
                hint = "unscaled" if mistake.startswith("old_rate") else mistake
                return Problem(f"{seen} {words[mistake]}", hint)
        if not differs(got, expected["alone"][rank]):
            return Problem(f"{seen} those of its own batch alone", "not_wrapped")
    return Problem(f"{seen} not those of the serial script: {found}", "weights", found.expected)


def goes_where_the_serial_script_goes(run: Run) -> Problem | None:
    return starts_alike(run) or goes_elsewhere(run, "begin")


def carries_on(run: Run) -> Problem | None:
    if problem := fault(run.stages["carry on"]):
        return problem
    problem = goes_elsewhere(run, "carry on")
    if problem and problem.hint == "weights" and (before := goes_where_the_serial_script_goes(run)):
        return replace(problem, hint=before.hint)  # it is wrong without a checkpoint, too
    return problem


def one_writer(run: Run) -> Problem | None:
    files = run.stages["begin"].files
    if files is None:
        return Problem(f"the ranks left more than {MAX_FILES} files", "writers")
    if PATH not in files:
        return Problem("rank 0 wrote no file to `path`", "no_file")
    for rank in range(1, run.world_size):
        if name := first_below(f"begin {rank}", files):
            return Problem(f"besides rank 0, rank {rank} wrote {name}", "writers")
    saved, first = run.stages["begin"].values[0]["saved"], run.expected["begin"]
    if not isinstance(saved, dict):
        return Problem(f"the file at `path` cannot be loaded: {saved or described(saved)}", "file")
    if problem := goes_where_the_serial_script_goes(run):
        return problem
    if found := differs(saved["model"], first["states"][-1]):
        seen = f"the weights in the file are not the last ones: {found}"
        return Problem(seen, "file", found.expected)
    if found := differs(saved["momenta"], first["momenta"]):
        seen = f"the momenta in the file are not the last ones: {found}"
        return Problem(seen, "file", found.expected)
    return None


ALL_RANKS = (
    "Every broadcast and every averaged gradient takes all ranks. Is one of them behind an "
    "`if hvd.rank() == 0`?"
)


CHECK = Check(
    id="hvd_torch",
    title="A serial script with Horovod",
    names=("train",),
    to_write="the script for all ranks",
    allowed=f"{ANYTHING}, `DistributedSampler` too",
    flavour="horovod",
    process_group=False,
    inputs=inputs,
    expect=expect,
    stages=(
        Stage("begin", drive, serve=serve_images, looks=True),
        Stage("carry on", drive, dies=True, serve=serve_images),
    ),
    timeout=30.0,
    claims=(
        Claim("every rank starts from rank 0's weights", 2, starts_alike),
        Claim("the ranks share every epoch's samples", 3, shares_samples),
        Claim(
            "each step is the serial script's with the larger batch",
            5,
            goes_where_the_serial_script_goes,
            of_calls=True,
        ),
        Claim("with rank 0's checkpoint, all carry on from there", 3, carries_on, of_calls=True),
        Claim("rank 0 saves, the others do not", 2, one_writer),
    ),
    hints={
        "start": "Go through the serial script line by line and ask of each: the same on every "
        "rank, a share on every rank, or on rank 0 alone? Six changes are enough: init, learning "
        "rate, DistributedOptimizer, two broadcasts, the sampler, and who saves.",
        "no_broadcast": "Averaging gradients keeps equal weights equal. It does not make different "
        "weights equal: whose weights count, and when do the others get them?",
        "no_optimizer": "Momentum is part of what decides a step, and each rank's optimizer keeps "
        "its own. The checkpoint's is on rank 0 alone: hvd.broadcast_parameters sends weights, and "
        "something else sends an optimizer's state.",
        "state_lost": "hvd.DistributedOptimizer makes a new optimizer of the one it gets: it takes "
        "over the parameters and their settings, not what has been remembered for them. Load "
        "after wrapping.",
        "load": "Where rank 0 finds a file at `path`, it loads model and optimizer from it, as the "
        "serial script does; then the others get both.",
        "no_shard": "Ranks that all see all samples do the same work several times. Who tells the "
        "loader which samples are this rank's? There is no process group of torch.distributed "
        "here, so it has to be told how many ranks there are.",
        "no_samples": "The check looks at the model and the data set that train was given.",
        "samples": "The shares of all ranks together are the data set, each sample once per epoch. "
        "All ranks share out one order: do all draw it from the same seed, and does each sampler "
        "know its rank and how many ranks there are?",
        "set_epoch": "A sampler that is not told the epoch shuffles alike each time. It cannot "
        "know on its own that a new one begins.",
        "order": "The serial script's order comes from seed + epoch, and step after step takes the "
        "next samples of it. A DistributedSampler can be given the seed, and deals them out in "
        "turn.",
        "batch": "batch_per_rank is what each rank takes in one step: with more ranks, a step has "
        "more samples and an epoch fewer steps.",
        "unscaled": "With W ranks a step has W times the samples, and there are W times fewer "
        "steps. The linear scaling rule (Goyal et al. 2017) makes up for that. A rate that comes "
        "out of a checkpoint is that of the run which wrote it.",
        "sum": "What are the ranks' gradients put together with: op=hvd.Average, the default, or "
        "a sum? The learning rate is scaled already.",
        "not_wrapped": "Whose step() do you call? Only hvd.DistributedOptimizer averages "
        "gradients, and it is another object than the optimizer that you gave it.",
        "weights": "Same start, same samples, other weights: look at the optimizer's settings, and "
        "at what every rank does between two steps.",
        "no_file": "`path` is the checkpoint's name. Rank 0 writes it at the end, as the serial "
        "script does.",
        "file": "What is saved is a dict with 'model' and 'optimizer', the state_dict of each, "
        "after the last step.",
        "writers": "All ranks hold the same weights. What do several writers of one file win, and "
        "what do they risk?",
        "raised": "Start from the exception: it names a line of your answer. If Horovod is not "
        "initialized: hvd.init() comes before anything else of it. If a checkpoint is not there: "
        "rank 0 alone has one. If gradients were computed too often before step(): nobody fetched "
        "them, so whose step() do you call?",
        "hang": ALL_RANKS,
        "mismatch": ALL_RANKS,
    },
)
