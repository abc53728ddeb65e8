"""Exercise checkpoint: stop in the middle of an epoch, resume with another number of ranks."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from hpml.checks.compare import state_difference
from hpml.checks.contract import CannotJudge, Check, Claim, Problem, Run, fault
from hpml.checks.kits.ready_made import ANYTHING
from hpml.modules.m06_torch_distributed.checks._stopped_training import (
    BATCH,
    KILLED_AT,
    LEAVES,
    LENGTH,
    PATH,
    SAVED,
    SAVES,
    STAGES,
    expect,
    inputs,
)
from hpml.ranks import killing
from hpml.ranks.evidence import Evidence
from hpml.ranks.supervisor.looking import MAX_FILES, first_below

TOLERANCE = 1e-9  # the model is float64: only the order of additions may differ


def one_writer(run: Run) -> Problem | None:
    files = run.stages["train and stop"].files
    if files is None:
        return Problem(f"the ranks left more than {MAX_FILES} files", "writers")
    if PATH not in files:
        return Problem("save has returned, and there is no file at `path` on rank 0", "no_file")
    for rank in range(1, run.world_size):
        if name := first_below(f"rank{rank}", files):
            return Problem(f"besides rank 0, rank {rank} wrote {name}", "writers")
    return None


def written_when_it_returns(run: Run) -> Problem | None:
    for rank in run.stages["train and stop"].ranks:
        files = next((a.files for a in rank.asked if not a.refused and a.request == SAVED), None)
        if not (files or {}).get(PATH):
            never = PATH not in (run.stages["train and stop"].files or {})
            return Problem(
                f"save had returned on rank {rank.rank}, and there was no file at `path` yet",
                "no_file" if never else "early",
            )
    return None


def samples_of_steps(evidence: Evidence) -> list[list[int]]:
    """The samples of all ranks of a launch together, sorted, by step."""
    steps = itertools.zip_longest(*(value["taken"] for value in evidence.values), fillvalue=())
    return [sorted(itertools.chain(*shares)) for shares in steps]


def other_shares(evidence: Evidence, batches: Sequence[Sequence[int]]) -> Problem | None:
    """Whether a rank takes another part of a batch than batch[r::w], or not as a list of ints."""
    world_size = evidence.world_size
    for rank, value in enumerate(evidence.values):
        if value["odd"]:
            return Problem(f"the sampler yields {value['odd'][0]}, not a list of ints", "types")
        for step, (got, batch) in enumerate(zip(value["taken"], batches, strict=True), 1):
            if got != batch[rank::world_size]:
                seen = f"in step {step}, rank {rank} of {world_size} takes other samples"
                return Problem(f"{seen} of the batch than batch[{rank}::{world_size}]", "share")
    return None


def takes_what_is_left(run: Run) -> Problem | None:
    steps = run.expected["steps"]
    batches = [sorted(batch) for batch in run.expected["batches"]]
    first = samples_of_steps(run.stages["train and stop"])
    for step, (got, batch) in enumerate(itertools.zip_longest(first, batches[:steps]), 1):
        if got != batch:
            if step > 1 and (step - 1) % LEAVES == 0:  # the first of a new loop
                seen = f"the loop was left after {step - 1} steps, and a new one"
                if got == batches[step - 2]:
                    return Problem(f"{seen} took the last batch again", "twice")
                if got == batches[(step - 1) * BATCH // LENGTH * (LENGTH // BATCH)]:
                    return Problem(f"{seen} began the epoch again", "left")
            if problem := position_kept(run, step, got):
                return replace(problem, message=f"before any stop, {problem.message}")
            return Problem(
                f"before any stop, the ranks' samples of step {step} are not together the next "
                f"{BATCH} of the epoch's order",
                "order",
            )
    if problem := other_shares(run.stages["train and stop"], run.expected["batches"][:steps]):
        return problem
    if problem := fault(run.stages["resume"]):
        return problem
    resumed = samples_of_steps(run.stages["resume"])
    if resumed == batches[steps:]:
        return other_shares(run.stages["resume"], run.expected["batches"][steps:])
    epoch, done = divmod(steps * BATCH, LENGTH)
    before = f"{run.world_size} rank{'s' * (run.world_size > 1)}"
    stopped = f"stopped on {before}, resumed on {run.stages['resume'].world_size}"
    after = f"after {done} samples of epoch {epoch}"
    if not resumed:
        return Problem(f"{stopped}: no samples were taken at all", "position", f"those {after}")
    place = place_of(resumed[0], list(itertools.chain(*run.expected["batches"])))
    if place is None:
        return Problem(
            f"{stopped}: the ranks' first samples are not together the next {BATCH} of any "
            "epoch's order",
            "order",
            f"those {after}",
        )
    seen = f"{stopped}: went on after {place[1]} samples of epoch {place[0]}"
    if place == (epoch, done):
        later = itertools.zip_longest(resumed, batches[steps:])
        step, got = next(
            (step, got) for step, (got, batch) in enumerate(later, steps + 1) if got != batch
        )
        if problem := position_kept(run, step, got):
            return replace(problem, message=f"{seen}, as it should; then {problem.message}")
        return Problem(f"{seen}, as it should, and a later batch is wrong", "order")
    hints = {
        (epoch, 0): "position",
        divmod(steps * BATCH - BATCH, LENGTH): "twice",
        (epoch + 1, 0): "local",  # it took the position to be the epoch's end
    }
    if done == 0:
        hints[epoch - 1, 0] = "end"
    return Problem(seen, hints.get(place, "local" if place[0] == epoch else "epoch"), after)


def position_kept(run: Run, step: int, got: list[int] | None) -> Problem | None:
    """Whether an epoch's first step, with the samples `got`, is where the epoch before stood."""
    epoch, done = divmod((step - 1) * BATCH, LENGTH)
    if done:
        return None
    if not got:
        return Problem(f"no samples of epoch {epoch} were taken", "kept")
    place = place_of(got, list(itertools.chain(*run.expected["batches"])))
    if place is None or place[0] != epoch:
        return None
    return Problem(f"epoch {epoch} began after {place[1]} of its samples", "kept", "after 0")


def place_of(batch: list[int], order: list[int]) -> tuple[int, int] | None:
    """The epoch, and the samples of it before this sorted batch, in the `order` of all epochs."""
    # Whole batches first: a window one sample early holds the same ones now and then
    for start in sorted(range(len(order) - BATCH + 1), key=lambda start: start % BATCH != 0):
        if sorted(order[start : start + BATCH]) == batch:
            return divmod(start, LENGTH)
    return None


def saved(run: Run) -> dict[str, torch.Tensor]:
    """The weights that rank 0 had when it saved and stopped."""
    return run.stages["train and stop"].values[0]["saved"]


def as_never_stopped(run: Run) -> Problem | None:
    if problem := fault(run.stages["resume"]):
        return problem
    for rank, value in enumerate(run.stages["resume"].values):
        if found := state_difference(value["loaded"], saved(run)):
            weights = state_difference(
                without_buffers(value["loaded"]), without_buffers(saved(run))
            )
            found, hint = (weights, "weights") if weights else (found, "buffers")
            seen = f"after load, rank {rank} does not have the {hint} that were saved: {found}"
            return Problem(seen, hint, found.expected)
    if problem := takes_what_is_left(run):
        return problem
    for rank, value in enumerate(run.stages["resume"].values):
        if found := state_difference(value["final"], run.expected["final"], TOLERANCE):
            return Problem(
                "resumed with the right weights and the right samples, "
                f"rank {rank} ends elsewhere than a run that never stopped: {found}",
                "optimizer",
                found.expected,
            )
    return None


def without_buffers(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor for name, tensor in state.items() if name != "batches"}


def is_whole(loaded: Any, saved: dict[str, torch.Tensor]) -> bool:
    """Whether it is the checkpoint from before, or one of those that were to replace it."""
    return any(
        state_difference(loaded, {n: t + later for n, t in saved.items()}, TOLERANCE) is None
        for later in range(SAVES + 1)
    )


def old_one_is_left(run: Run) -> Problem | CannotJudge | None:
    if run.world_size not in KILLED_AT:
        return None
    if not killing.possible():
        return CannotJudge("only Linux reports when a file is written, for a kill in time")
    writing = run.stages["killed while writing"]
    if writing.killed is None:
        if problem := fault(writing):
            return problem
        if writing.no_kill:
            return CannotJudge(f"this machine cannot watch a folder: {writing.no_kill}")
        return Problem(
            f"in {SAVES} calls of save, rank 0 wrote no file in the folder of `path`, or put "
            "none in the old one's place, so that nothing could be killed while writing",
            "incomplete",
        )
    if writing.broken:
        return Problem(
            f"the file at `path` was not whole at every moment of save: {writing.broken}",
            "in_place",
        )
    if problem := fault(run.stages["after the kill"]):
        return problem
    (after,) = run.stages["after the kill"].values
    if "failed" in after:
        return Problem(
            f"killed while writing, and the next load fails: {after['failed']}", "in_place"
        )
    if not is_whole(after["loaded"], saved(run)):
        return Problem("what is left after the kill is not a state that was saved", "torn")
    return None


ALL_RANKS = (
    "save and load are called by all ranks. If one waits for the others, does each of them come to "
    "that place? A barrier that only the writing rank calls meets the next call of the others, "
    "whatever that is."
)

CHECK = Check(
    id="checkpoint",
    title="Stop and carry on",
    names=("ResumableSampler", "save", "load"),
    to_write="the sampler, `save` and `load`",
    allowed=ANYTHING,
    inputs=inputs,
    expect=expect,
    stages=STAGES,
    shared_folder=True,
    timeout=30.0,
    claims=(
        Claim("one rank writes", 3, one_writer),
        Claim("save returns, on every rank, when the file is there", 2, written_when_it_returns),
        Claim("resumed on other ranks, it takes the samples that are left", 4, takes_what_is_left),
        Claim("it ends with the weights of a run that never stopped", 3, as_never_stopped),
        Claim("killed while writing, it leaves the old checkpoint", 3, old_one_is_left),
    ),
    hints={
        "start": "What decides the next step? Make a list: weights, what the optimizer "
        "remembers, the learning rate, which samples come next. All of it has to be in the file, "
        "and none of it may depend on how many ranks there were.",
        "no_file": "`path` is the finished file's name. If you write under another name first, "
        "something has to give it its own in the end.",
        "writers": "All ranks hold the same weights. What do several writers of one file win, and "
        "what do they risk?",
        "early": "A rank that comes back from save may load the file, or end the job. What does it "
        "have to know about rank 0 first? A barrier holds each rank until all have come to it: "
        "where does rank 0 have to come to it, if the file is to be complete then?",
        "order": "One epoch has one order, the same on all ranks; a global batch is its next "
        "global_batch samples. Only then each rank takes its share.",
        "position": "Which samples of this epoch are done is part of the state, like the weights. "
        "Otherwise a job that is stopped once per epoch sees the same samples over and over.",
        "end": "A stop can come after the last batch of an epoch, too. That epoch is done then: "
        "nothing is left of it, and the next batch is the first of the next epoch.",
        "kept": "A position belongs to one epoch. When the last batch of it is done, the epoch "
        "grows by one and the position is 0 again. One that is kept, from the last epoch or from "
        "the checkpoint, leaves out the beginning of the next epoch, or all of it.",
        "left": "__iter__ begins where the sampler stands, each time: a loop that was left by "
        "break or return is no reason to begin the epoch again.",
        "share": "Rank r of w takes batch[r::w]: its first sample is the batch's r-th, from 0.",
        "types": "A data set is indexed by plain ints, in a list: .tolist() makes one of a tensor.",
        "epoch": "The order depends on the epoch, so a position means nothing without it.",
        "twice": "When save is called from inside the loop, your generator stands still at its "
        "yield, and the batch that it gave out has been trained on.",
        "local": "How many samples one rank has taken says nothing to another number of ranks. "
        "What would be the same for all of them?",
        "weights": "Every rank needs the state, not only the one that wrote it.",
        "buffers": "A model's state is more than what the optimizer changes: a batch norm has a "
        "running mean, and a count. Which of PyTorch's functions has all of it?",
        "optimizer": "The weights are right and the steps are not: the optimizer carries something "
        "from step to step. SGD has momentum, and a learning rate that was changed on the way.",
        "incomplete": "On rank 0, save writes a file in the folder of `path`, each time it is "
        "called.",
        "in_place": "Opening a file for writing empties it, and removing it leaves none. From then "
        "until the new one's last byte there is no checkpoint at all, unless the new one has "
        "another name until it is complete, and takes the old one's place in one step.",
        "torn": "At every moment, what is at `path` is the old one or the new one, as a whole.",
        "raised": "Start from the exception: it names a line of your answer. If a file is not "
        "there: a job that resumes may have more ranks than the one that saved, and all of them "
        "read what rank 0 wrote. If a file is gone when it is to be renamed: has another rank "
        "renamed it?",
        "hang": ALL_RANKS,
        "mismatch": ALL_RANKS,
    },
)
