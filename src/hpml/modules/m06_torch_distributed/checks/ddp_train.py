"""Exercise ddp_train: a serial training script, made data parallel with PyTorch's own DDP."""

# `serial` is what the notebook shows, to the letter; a Dataset has no len for mypy.
# mypy: disable-error-code="arg-type"

import math
import re
from collections.abc import Sequence
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from hpml.checks.compare import described, state_difference, state_of
from hpml.checks.contract import Check, Claim, Problem, Run, Stage, fault
from hpml.checks.kits.ready_made import ANYTHING
from hpml.checks.kits.served_samples import ServedImages, serve_images
from hpml.checks.kits.shares import wrong_shares
from hpml.checks.kits.small_images import Images, new_model, noisy_classes
from hpml.checks.nodes import per_node
from hpml.checks.seeds import derived
from hpml.modules.m06_torch_distributed.checks._launchers import (
    LARGEST_JOB_ID,
    another_job_came_first,
    become_task_of_srun,
    srun_here,
)
from hpml.ranks.evidence import Evidence

LENGTH, BATCH, EPOCHS = 96, 24, 3  # BATCH is the global one: 1, 2, 3 and 4 ranks share it evenly
LEARNING_RATE = 0.05
# All is float64: in float32 a rounding difference can tip a maximum, and then weights differ. An
# answer may add up losses in float32. The usual mistakes move weights by more than ten times that.
TOLERANCE = 1e-4
LINE = re.compile(r"epoch (\d+): loss (\S+)")
FOUR_DIGITS = re.compile(r"\d+\.\d{4}")
# Of the training, in other words than LINE's; libraries print warnings, which are of neither
OF_TRAINING = re.compile(r"\b(epoch|loss)", re.IGNORECASE)


def inputs(seed: int, world_size: int) -> dict[str, list[dict[str, Any]]]:
    """For each stage and rank: the images of ten noisy classes, and its own initial weights."""
    draw = torch.Generator().manual_seed(seed)
    images, labels = noisy_classes(draw, LENGTH, torch.float64)
    data = {"images": images, "labels": labels, "seed": derived(seed, "order")}
    job = derived(seed, "job") % LARGEST_JOB_ID
    ranks = [
        data
        | {
            "model": derived(seed, f"model {rank}"),
            "srun": srun_here(job, rank, world_size, per_node(world_size)),
        }
        for rank in range(world_size)
    ]
    return {stage.name: ranks for stage in STAGES}


def under_torchrun(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """Train in the environment that torchrun makes."""
    model = new_model(inputs["model"], torch.float64)
    dataset = ServedImages(inputs["length"])
    _holding = another_job_came_first()
    losses = answer.train(model, dataset, EPOCHS, BATCH, LEARNING_RATE, inputs["seed"])
    return {"state": state_of(model.cpu()), "losses": losses}


def under_srun(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """Train in the environment that srun makes; the job script has exported MASTER_*."""
    become_task_of_srun(inputs["srun"])
    return under_torchrun(answer, inputs)


STAGES = (
    # Ranks meet at rank 0's address: on a network, "localhost" leads to it from rank 0 alone.
    Stage("torchrun", under_torchrun, link="10gbit", serve=serve_images),
    Stage("srun", under_srun, dies=True, link="10gbit", serve=serve_images),
)


def serial(
    model: nn.Module,
    dataset: Dataset,
    epochs: int,
    global_batch: int,
    learning_rate: float,
    seed: int,
) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    losses = []
    for epoch in range(epochs):
        draw = torch.Generator().manual_seed(seed + epoch)
        order = torch.randperm(len(dataset), generator=draw).tolist()
        total = 0.0
        for images, labels in DataLoader(dataset, global_batch, sampler=order):
            loss = functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(labels)
        losses.append(total / len(dataset))
        print(f"epoch {epoch}: loss {losses[-1]:.4f}")
    return losses


def expect(inputs: dict[str, list[dict[str, Any]]], world_size: int) -> dict[str, Any]:
    """The serial script's result from rank 0's initial weights, and that of two usual mistakes."""
    data = inputs["torchrun"][0]
    # `serial` prints, as the learners' script does; redirecting stdout would affect other threads.
    quiet = FunctionType(serial.__code__, {**globals(), "print": lambda *_: None})

    def end(global_batch: int, learning_rate: float) -> dict[str, Any]:
        model = new_model(data["model"], torch.float64)
        dataset = Images(data["images"], data["labels"])
        losses = quiet(model, dataset, EPOCHS, global_batch, learning_rate, data["seed"])
        return {"state": state_of(model), "losses": losses, "taken": dataset.taken}

    return {
        **end(BATCH, LEARNING_RATE),
        "scaled": end(BATCH, LEARNING_RATE * world_size)["state"],
        "undivided": end(BATCH * world_size, LEARNING_RATE)["state"],
        "initial": [
            state_of(new_model(rank["model"], torch.float64)) for rank in inputs["torchrun"]
        ],
    }


def wrong_samples(evidence: Evidence, order: Sequence[int]) -> Problem | None:
    """Whether in every step the ranks together take the next samples of `order`."""
    return wrong_shares(evidence, order, LENGTH, EPOCHS, BATCH)


def shares_samples(run: Run) -> Problem | None:
    return wrong_samples(run.stages["torchrun"], run.expected["taken"])


def ends_elsewhere(run: Run, stage: str) -> Problem | None:
    evidence = run.stages[stage]
    if problem := wrong_samples(evidence, run.expected["taken"]):
        return problem
    states = [value["state"] for value in evidence.values]
    for rank, state in enumerate(states):
        found = state_difference(state, run.expected["state"], TOLERANCE)
        if found is None:
            continue
        if not state_difference(state, run.expected["scaled"], TOLERANCE):
            return Problem(
                f"rank {rank}'s weights are those of gradients, or of a learning rate, "
                f"{run.world_size} times as large",
                "scaled",
            )
        if not state_difference(state, run.expected["undivided"], TOLERANCE):
            return Problem(
                f"rank {rank}'s weights are those of batches {run.world_size} times as large",
                "undivided",
            )
        # Not wrapped at all, it has its own initial weights; wrapped, those of rank 0.
        initial = run.expected["initial"]
        if any(not state_difference(state, initial[r], TOLERANCE) for r in (0, rank)):
            return Problem(
                f"under {stage}, rank {rank}'s weights are initial ones: the model that train was "
                "given has not been trained",
                "untrained",
            )
        if rank == 0 and (others := [s for s in states if state_difference(s, state, TOLERANCE)]):
            return Problem(
                f"{len(others)} of {run.world_size} ranks have other weights than rank 0",
                "not_wrapped",
            )
        return Problem(
            f"under {stage}, rank {rank}'s weights are not those of the serial script: {found}",
            "weights",
            found.expected,
        )
    return None


def trains_under_torchrun(run: Run) -> Problem | None:
    return ends_elsewhere(run, "torchrun")


def trains_under_srun(run: Run) -> Problem | None:
    return fault(run.stages["srun"]) or ends_elsewhere(run, "srun")


def returns_global_losses(run: Run) -> Problem | None:
    if problem := shares_samples(run):  # else there was nothing to put together
        return problem
    expected = run.expected["losses"]
    for rank, value in enumerate(run.stages["torchrun"].values):
        losses = value["losses"]
        if not isinstance(losses, list) or len(losses) != EPOCHS:
            return Problem(
                f"train returned {described(losses)} on rank {rank}, not one loss per epoch, "
                f"which is a list of {EPOCHS}",
                "losses",
            )
        for epoch, (loss, right) in enumerate(zip(losses, expected, strict=True)):
            if not isinstance(loss, float):
                return Problem(
                    f"rank {rank}'s loss of epoch {epoch} is {described(loss)}, not a float",
                    "losses",
                )
            if not abs(loss - right) <= TOLERANCE * max(1.0, right):
                return Problem(
                    f"rank {rank}'s loss of epoch {epoch} is {loss:.4f}",
                    hint_for_losses(run, loss, right),
                    f"{right:.4f}, the mean over all {LENGTH} samples",
                )
    return None


def hint_for_losses(run: Run, loss: float, right: float) -> str:
    """The hint for wrong losses: wrong weights also give these, so weights are compared first."""
    if problem := trains_under_torchrun(run):
        return problem.hint
    summed = run.world_size * right
    return "loss_of_sums" if abs(loss - summed) <= 10 * TOLERANCE * summed else "own_loss"


def prints_once(run: Run) -> Problem | None:
    printed = [LINE.findall(rank.stdout) for rank in run.stages["torchrun"].ranks]
    for rank, lines in enumerate(printed):
        if rank and lines:
            return Problem(f"rank {rank} printed losses too", "everyone_prints")
        own = run.stages["torchrun"].ranks[rank].stdout.splitlines()
        more = [line for line in own if OF_TRAINING.search(line) and "arning" not in line]
        if rank and more:
            seen = f"rank {rank} printed {len(more)} line{'s' * (len(more) > 1)} on the training"
            return Problem(seen, "everyone_prints")
    if [epoch for epoch, _ in printed[0]] != [str(epoch) for epoch in range(EPOCHS)]:
        return Problem(
            f"rank 0 printed {len(printed[0])} lines like 'epoch 0: loss 2.3026'",
            "prints",
            f"{EPOCHS}, one for each epoch",
        )
    for (epoch, text), loss in zip(printed[0], run.expected["losses"], strict=True):
        if close(text, loss) and not FOUR_DIGITS.fullmatch(text):
            return Problem(
                f"rank 0 printed {text} for epoch {epoch}, not four digits behind the point",
                "digits",
            )
        if text != f"{loss:.4f}" and not close(text, loss):
            return Problem(
                f"rank 0 printed {text} for epoch {epoch}",
                hint_for_losses(run, as_number(text), loss),
                f"{loss:.4f}, the mean over all samples",
            )
    return None


def close(text: str, loss: float) -> bool:
    """Whether `text` is a number equal to `loss` to about four digits."""
    return abs(as_number(text) - loss) <= 10 * TOLERANCE


def as_number(text: str) -> float:
    """NaN if it is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


ALL_RANKS = (
    "init_process_group, every step of DDP and every all_reduce need all ranks. Is one of them "
    "behind an `if rank == 0`?"
)

CHECK = Check(
    id="ddp_train",
    title="A serial script on all ranks",
    names=("train",),
    to_write="the script for all ranks",
    allowed=f"{ANYTHING}, `DistributedDataParallel` and `DistributedSampler` too",
    process_group=False,
    prints=True,
    inputs=inputs,
    expect=expect,
    stages=STAGES,
    timeout=30.0,
    claims=(
        Claim("the ranks share every epoch's samples, in a new order each", 2, shares_samples),
        Claim(
            "under torchrun, it ends with the serial weights",
            5,
            trains_under_torchrun,
            of_calls=True,
        ),
        Claim("under srun, it does so too", 3, trains_under_srun, of_calls=True),
        Claim("the loss is the mean over all samples, on every rank", 3, returns_global_losses),
        Claim("rank 0 prints it, the others nothing", 2, prints_once),
    ),
    hints={
        "start": "Go through the serial script line by line and ask of each: the same on every "
        "rank, a share on every rank, or on rank 0 alone? Few lines change.",
        "no_shard": "Ranks that all see all samples do the same work several times. Who tells "
        "the loader which samples are this rank's?",
        "samples": "The shares of all ranks together are the data set, each sample once. Does the "
        "sampler know how many ranks there are, and on each rank which one it is?",
        "no_samples": "The check looks at what is taken from the data set that train was given.",
        "set_epoch": "A sampler that is not told the epoch shuffles alike each time. It cannot "
        "know on its own that a new one begins.",
        "order": "The serial script shuffles by seed + epoch, and each step takes the next "
        "global_batch samples of that order. A DistributedSampler can be given both numbers, and "
        "be asked to shuffle. Does the loader use it?",
        "scaled": "Gradients have to be averaged over the ranks: an all_reduce adds them up. If "
        "they are: does the learning rate have to grow with the ranks? Compare how many samples "
        "one step had before and has now.",
        "undivided": "global_batch is that of a whole step. A rank's DataLoader needs the rank's "
        "part of it.",
        "untrained": "The caller has the model that it gave to train, and no other. Whose "
        "parameters does the optimizer change: those of this model, or of a copy?",
        "not_wrapped": "Backward only averages gradients of a forward pass that went through "
        "DistributedDataParallel. Which object do you call?",
        "weights": "Same samples, other weights: look at the optimizer's settings, and at what "
        "every rank does between two steps.",
        "losses": "train returns a list with one Python float per epoch, as the serial script "
        "does.",
        "own_loss": "A reader of the log wants the mean over all samples: what all ranks add up, "
        "divided by the number of samples, once. DDP averages gradients, and nothing else.",
        "loss_of_sums": "That is the mean loss, as many times as there are ranks. What is added up "
        "over the ranks is of all samples: by how many is it divided?",
        "prints": "Somebody reads the log: one line per epoch, as the serial script has it.",
        "digits": "The serial script prints `{losses[-1]:.4f}`: programs that read logs want the "
        "line as it was.",
        "everyone_prints": "256 ranks that print give 256 lines per epoch. Who is the one to do "
        "it?",
        "raised": "Start from the exception: it names a line of your answer. If a variable is "
        "missing: torchrun and srun name the same things differently, RANK and SLURM_PROCID, "
        "WORLD_SIZE and SLURM_STEP_NUM_TASKS, LOCAL_RANK and SLURM_LOCALID. If there is no process "
        "group: who makes it, and before what?",
        "hang": ALL_RANKS,
        "mismatch": ALL_RANKS,
    },
)
