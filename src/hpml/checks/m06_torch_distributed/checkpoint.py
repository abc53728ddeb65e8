"""Exercise checkpoint: stop in the middle of an epoch, resume with another number of ranks."""

import itertools
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from hpml.checks.compare import state_difference
from hpml.checks.contract import CannotJudge, Check, Claim, Problem, Run, Stage, fault
from hpml.checks.seeds import derived
from hpml.ranks import Kill, killing
from hpml.ranks.evidence import Evidence

LENGTH, BATCH, EPOCHS = 72, 12, 3  # BATCH is the global one: 1, 2, 3 and 4 ranks share it evenly
PER_EPOCH = LENGTH // BATCH
FEATURES, HIDDEN, CLASSES = 20, 500, 10  # 122 kB of float64 weights, and as much momentum
DECAY = 0.9  # of the learning rate, in every step
WRITING = 0.005  # seconds
TOLERANCE = 1e-9  # the model is float64: only the order of additions may differ
SAVES = 5  # one after the other; in one of them rank 0 is killed, in which one nobody knows


class Slow(torch.Tensor):
    """A tensor that takes a while to be pickled, and is pickled as a plain one."""

    def __reduce_ex__(self, protocol: int) -> Any:
        time.sleep(WRITING)
        return self.as_subclass(torch.Tensor).__reduce_ex__(protocol)


class Net(nn.Module):
    """A perceptron, float64 (N, 20) -> (N, 10), whose state_dict takes `slow` seconds.

    With `written_slowly` its state takes WRITING seconds to be pickled: time for a kill.

    It is drawn in float32, so that it is the same where an answer has set another default dtype.
    """

    def __init__(self, slow: float = 0.0) -> None:
        super().__init__()
        self.inner = nn.Linear(FEATURES, HIDDEN, dtype=torch.float32)
        self.outer = nn.Linear(HIDDEN, CLASSES, dtype=torch.float32)
        self.slow, self.written_slowly = slow, False
        self.double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.outer(torch.relu(self.inner(x)))

    def state_dict(self, *arguments: Any, **options: Any) -> dict[str, Any]:
        time.sleep(self.slow)
        state = super().state_dict(*arguments, **options)
        if self.written_slowly:
            state["inner.weight"] = state["inner.weight"].as_subclass(Slow)
        return state


def new_net(seed: int, slow: float = 0.0) -> Net:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Net(slow)


def new_optimizer(net: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9)


def state_of(net: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in nn.Module.state_dict(net).items()}


def inputs(seed: int, world_size: int) -> dict[str, list[dict[str, Any]]]:
    """By stage, for each rank: the data, the seeds, after how many steps to save or to stop."""
    draw = torch.Generator().manual_seed(seed)
    data = {
        "x": torch.randn(LENGTH, FEATURES, generator=draw, dtype=torch.float64),
        "y": torch.randint(0, CLASSES, (LENGTH,), generator=draw),
        "seed": derived(seed, "order"),
        # In the second epoch, at a step where the usual mistakes differ from each other
        "steps": PER_EPOCH + 3 + seed % (PER_EPOCH - 3),
    }
    return {
        stage.name: [
            data | {"net": derived(seed, f"net of {stage.name} {rank}")}
            for rank in range(stage.world(world_size))
        ]
        for stage in STAGES
    }


def take_steps(
    net: nn.Module, optimizer: torch.optim.Optimizer, sampler: Any, data: dict[str, Any], most: int
) -> list[list[int]]:
    """Train to the last epoch's end or `most` steps; returns this rank's samples, by step."""
    taken: list[list[int]] = []
    while sampler.epoch < EPOCHS and len(taken) < most:
        before = sampler.epoch, len(taken)
        for samples in sampler:
            samples = [int(sample) for sample in samples]
            optimizer.zero_grad()
            x, y = data["x"][samples], data["y"][samples]
            (functional.cross_entropy(net(x), y, reduction="sum") / BATCH).backward()
            gradients = [parameter.grad for parameter in net.parameters()]
            dist.all_reduce(summed := parameters_to_vector(gradients))
            vector_to_parameters(summed, gradients)
            optimizer.step()
            optimizer.param_groups[0]["lr"] *= DECAY
            taken.append(samples)
            if len(taken) == most:
                return taken
        if before == (sampler.epoch, len(taken)):
            break  # The sampler is empty and does not advance.
    return taken


def fresh(answer: ModuleType, inputs: dict[str, Any], slow: float = 0.0) -> tuple[Any, Any, Any]:
    """A new net, optimizer and sampler, as at a program's start."""
    net = new_net(inputs["net"], slow)
    return net, new_optimizer(net), answer.ResumableSampler(LENGTH, BATCH, inputs["seed"])


def train_and_stop(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """Save, each rank to its own folder as on nodes that share no disk, rank 0 slowly.

    Saves at the start (where rank 0 is slow) and at the stop. A second hard link to the first file
    shows whether the file was overwritten or replaced.
    """
    rank = dist.get_rank()
    folder = Path(f"rank{rank}")
    folder.mkdir()
    path, first = folder / "checkpoint.pt", Path("first.pt")
    others_wait = rank == 0 and dist.get_world_size() > 1
    net, optimizer, sampler = fresh(answer, inputs, slow=0.1 if others_wait else 0.0)
    net.load_state_dict(state_of(new_net(inputs["seed"])))
    dist.barrier()
    answer.save(str(path), net, optimizer, sampler)
    there = Path("rank0/checkpoint.pt").exists()
    net.slow = 0.0
    dist.barrier()
    if rank == 0 and there:
        first.hardlink_to(path)
        before = first.read_bytes()
    taken = take_steps(net, optimizer, sampler, inputs, inputs["steps"])
    answer.save(str(path), net, optimizer, sampler)
    dist.barrier()
    return {
        "taken": taken,
        "there": there,
        "files": sorted(file.name for file in folder.iterdir()),
        "replaced": first.read_bytes() == before if rank == 0 and there else None,
        "saved": state_of(net),
    }


def resume(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """Load, and train to the end of the last epoch."""
    net, optimizer, sampler = fresh(answer, inputs)
    answer.load("rank0/checkpoint.pt", net, optimizer, sampler)
    loaded = state_of(net)
    taken = take_steps(net, optimizer, sampler, inputs, 2 * EPOCHS * PER_EPOCH)
    return {"loaded": loaded, "taken": taken, "final": state_of(net)}


def killed_while_writing(answer: ModuleType, inputs: dict[str, Any]) -> None:
    """Load, and save one state after the other; rank 0's process is killed while it writes."""
    net, optimizer, sampler = fresh(answer, inputs)
    answer.load("rank0/checkpoint.pt", net, optimizer, sampler)
    net.written_slowly = True
    for _ in range(SAVES):
        with torch.no_grad():
            for parameter in net.parameters():
                parameter += 1.0
        dist.barrier()
        answer.save("rank0/checkpoint.pt", net, optimizer, sampler)


def kill(seed: int) -> Kill:
    """At a writing that does not follow from what a rank is given, or when the file is in parts."""
    nth = 1 + derived(seed, "kill") % (SAVES - 1)
    return Kill(0, "rank0", nth, file="checkpoint.pt")


def after_the_kill(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """The state in the remaining file, or why it cannot be loaded."""
    net, optimizer, sampler = fresh(answer, inputs)
    try:
        answer.load("rank0/checkpoint.pt", net, optimizer, sampler)
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"}
    return {"loaded": state_of(net)}


def another(world_size: int) -> int:
    return world_size % 4 + 1


STAGES = (
    Stage("train and stop", train_and_stop),
    Stage("resume", resume, world=another, dies=True),
    Stage("killed while writing", killed_while_writing, dies=True, kill=kill),
    Stage("after the kill", after_the_kill, world=lambda _: 1, dies=True),
)


def expect(inputs: dict[str, list[dict[str, Any]]], world_size: int) -> dict[str, Any]:
    """An uninterrupted run's samples in each step, and its state at the end."""
    data = inputs["train and stop"][0]
    net = new_net(data["seed"])
    optimizer = new_optimizer(net)
    batches: list[list[int]] = []
    for epoch in range(EPOCHS):
        draw = torch.Generator().manual_seed(data["seed"] + epoch)
        batches += [batch.tolist() for batch in torch.randperm(LENGTH, generator=draw).split(BATCH)]
    for batch in batches:
        optimizer.zero_grad()
        functional.cross_entropy(net(data["x"][batch]), data["y"][batch]).backward()
        optimizer.step()
        optimizer.param_groups[0]["lr"] *= DECAY
    return {"batches": batches, "steps": data["steps"], "final": state_of(net)}


def one_writer(run: Run) -> Problem | None:
    files = [value["files"] for value in run.stages["train and stop"].values]
    if "checkpoint.pt" not in files[0]:
        return Problem("save has returned, and there is no file at `path` on rank 0", "no_file")
    if writers := [rank for rank, names in enumerate(files) if rank and names]:
        return Problem(f"besides rank 0, rank {writers[0]} wrote {files[writers[0]][0]}", "writers")
    return None


def written_when_it_returns(run: Run) -> Problem | None:
    there = [value["there"] for value in run.stages["train and stop"].values]
    if not all(there):
        return Problem(
            f"save had returned on rank {there.index(False)}, and there was no file at `path` yet",
            "early",
        )
    return None


def samples_of_steps(evidence: Evidence) -> list[list[int]]:
    """The samples of all ranks of a launch together, sorted, by step."""
    steps = itertools.zip_longest(*(value["taken"] for value in evidence.values), fillvalue=())
    return [sorted(itertools.chain(*shares)) for shares in steps]


def takes_what_is_left(run: Run) -> Problem | None:
    steps = run.expected["steps"]
    batches = [sorted(batch) for batch in run.expected["batches"]]
    first = samples_of_steps(run.stages["train and stop"])
    for step, (got, batch) in enumerate(itertools.zip_longest(first, batches[:steps]), 1):
        if got != batch:
            return Problem(
                f"before any stop, the ranks' samples of step {step} are not together the next "
                f"{BATCH} of the epoch's order",
                "order",
            )
    if problem := fault(run.stages["resume"]):
        return problem
    resumed = samples_of_steps(run.stages["resume"])
    if resumed == batches[steps:]:
        return None
    epoch, done = divmod(steps * BATCH, LENGTH)
    stopped = f"stopped on {run.world_size} ranks, resumed on {run.stages['resume'].world_size}"
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
        return Problem(f"{seen}, as it should, and a later batch is wrong", "order")
    hints = {
        (epoch, 0): "position",
        (epoch, done - BATCH): "twice",
        (epoch + 1, 0): "local",  # it took the position to be the epoch's end
    }
    return Problem(seen, hints.get(place, "local" if place[0] == epoch else "epoch"), after)


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
            return Problem(
                f"after load, rank {rank} does not have the weights that were saved: {found}",
                "weights",
                found.expected,
            )
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


def is_whole(loaded: Any, saved: dict[str, torch.Tensor]) -> bool:
    """Whether it is the checkpoint from before, or one of those that were to replace it."""
    return any(
        state_difference(loaded, {n: t + later for n, t in saved.items()}, TOLERANCE) is None
        for later in range(SAVES + 1)
    )


def old_one_is_left(run: Run) -> Problem | CannotJudge | None:
    if not killing.possible():
        return CannotJudge("only Linux reports when a file is written, for a kill in time")
    writing = run.stages["killed while writing"]
    if writing.killed is None:
        if problem := fault(writing):
            return problem
        return Problem(
            f"in {SAVES} calls of save, rank 0 wrote no file in the folder of `path`, so that "
            "nothing could be killed while writing",
            "incomplete",
        )
    if problem := fault(run.stages["after the kill"]):
        return problem
    if run.stages["train and stop"].values[0]["replaced"] is False:
        return Problem(
            "the second save changed the first file's content instead of putting a new file in its "
            "place",
            "in_place",
        )
    (after,) = run.stages["after the kill"].values
    if "failed" in after:
        return Problem(
            f"killed while writing, and the next load fails: {after['failed']}", "in_place"
        )
    if not is_whole(after["loaded"], saved(run)):
        return Problem("what is left after the kill is no state that was saved", "torn")
    return None


ALL_RANKS = (
    "save and load are called by all ranks. If one waits for the others, does each of them come to "
    "that place?"
)

CHECK = Check(
    id="checkpoint",
    title="Stop and carry on",
    names=("ResumableSampler", "save", "load"),
    to_write="the sampler, `save` and `load`",
    allowed="anything in `torch` and Python's standard library",
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
        "start": "List what decides the next step: weights, what the optimizer remembers, the "
        "learning rate, which samples come next. All of it has to be in the file, and none of it "
        "may depend on how many ranks there were.",
        "no_file": "`path` is the finished file's name. If you write under another name first, "
        "something has to give it its own in the end.",
        "writers": "All ranks hold the same weights. What do several writers of one file win, and "
        "what do they risk?",
        "early": "A rank that comes back from save may load the file, or end the job. What does it "
        "have to know about rank 0 first?",
        "order": "One epoch has one order, the same on all ranks; a global batch is its next "
        "batch_size samples. Only then each rank takes its share.",
        "position": "Which samples of this epoch are done is part of the state, like the weights. "
        "Otherwise a job that is stopped once per epoch sees the same samples over and over.",
        "epoch": "The order depends on the epoch, so a position means nothing without it.",
        "twice": "When save is called from inside the loop, your generator stands still at its "
        "yield, and the batch that it gave out has been trained on.",
        "local": "How many samples one rank has taken says nothing to another number of ranks. "
        "What would be the same for all of them?",
        "weights": "Every rank needs the state, not only the one that wrote it.",
        "optimizer": "The weights are right and the steps are not: the optimizer carries something "
        "from step to step. SGD has momentum, and a learning rate that was changed on the way.",
        "incomplete": "On rank 0, save writes a file in the folder of `path`, each time it is "
        "called.",
        "in_place": "Opening a file for writing empties it. From then until the last byte there is "
        "no checkpoint at all, unless the new one has another name until it is complete.",
        "torn": "At every moment, what is at `path` is the old one or the new one, as a whole.",
        "hang": ALL_RANKS,
        "mismatch": ALL_RANKS,
    },
)
