"""Exercise checkpoint's model, data, drives and expected values: a training that stops twice.

It is stopped in the middle of an epoch and resumed on another number of ranks; then its process is
killed while it writes.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from hpml.checks.contract import Stage
from hpml.checks.seeds import derived
from hpml.ranks import Kill, Reply, Server, ask

LENGTH, BATCH, EPOCHS = 72, 12, 3  # BATCH is the global one: 1, 2, 3 and 4 ranks share it evenly
PER_EPOCH = LENGTH // BATCH
STOPS_AT_THE_END = 3  # ranks, which stop after the last batch of an epoch; others in its middle
LEAVES = 5  # steps, after each of which the sampler's loop is left, to go on in a new one
FEATURES, HIDDEN, CLASSES = 20, 500, 10  # 122 kB of float64 weights, and as much momentum
SAVE, STATE, SAVED = "it calls save", "it needs the model's state", "save has returned"
HELD = {SAVE: 0.05, STATE: 0.1, SAVED: 0.0}  # seconds; rank 0 is, at what it asks
PATH = "rank0/checkpoint.pt"  # rank 0's: the others write to theirs, or nowhere
DECAY = 0.9  # of the learning rate, in every step
WRITING = 0.005  # seconds
KILLED_AT = (2, 4)  # ranks: one of them writes, however many there are
SAVES = 5  # one after the other; in one of them rank 0 is killed, in which one nobody knows


class Slow(torch.Tensor):
    """A tensor that takes a while to be pickled, and is pickled as a plain one."""

    def __reduce_ex__(self, protocol: int) -> Any:
        time.sleep(WRITING)
        return self.as_subclass(torch.Tensor).__reduce_ex__(protocol)


class Net(nn.Module):
    """A perceptron, float64 (N, 20) -> (N, 10), with a buffer that counts its batches.

    While it `asks`, its state_dict waits for a reply. With `written_slowly` its state takes
    WRITING seconds to be pickled: time for a kill.

    It is drawn in float32, so that it is the same where an answer has set another default dtype.
    """

    batches: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(FEATURES, HIDDEN, dtype=torch.float32)
        self.outer = nn.Linear(HIDDEN, CLASSES, dtype=torch.float32)
        self.register_buffer("batches", torch.tensor(0))
        self.asks = self.written_slowly = False
        self.double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.batches.add_(1)
        return self.outer(torch.relu(self.inner(x)))

    def state_dict(self, *arguments: Any, **options: Any) -> dict[str, Any]:
        if self.asks:
            ask(STATE)
        state = super().state_dict(*arguments, **options)
        if self.written_slowly:
            state["inner.weight"] = state["inner.weight"].as_subclass(Slow)
        return state


def new_net(seed: int) -> Net:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Net()


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
        "steps": 2 * PER_EPOCH
        if world_size == STOPS_AT_THE_END
        else PER_EPOCH + 3 + seed % (PER_EPOCH - 3),
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
) -> tuple[list[list[int]], list[str]]:
    """Train to the last epoch's end or `most` steps, and leave the sampler's loop on the way.

    Returns this rank's samples, by step, and what else than lists of ints the sampler yielded.
    """
    taken: list[list[int]] = []
    odd: list[str] = []
    while sampler.epoch < EPOCHS and len(taken) < most:
        before = sampler.epoch, len(taken)
        for samples in sampler:
            if type(samples) is not list:
                odd.append(type(samples).__name__)
            elif kinds := {type(one).__name__ for one in samples} - {"int"}:
                odd.append(f"a list of {min(kinds)}")
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
                return taken, odd
            if len(taken) % LEAVES == 0:
                break
        if before == (sampler.epoch, len(taken)):
            break  # The sampler is empty and does not advance.
    return taken, odd


def fresh(answer: ModuleType, inputs: dict[str, Any]) -> tuple[Any, Any, Any]:
    """A new net, optimizer and sampler, as at a program's start."""
    net = new_net(inputs["net"])
    return net, new_optimizer(net), answer.ResumableSampler(LENGTH, BATCH, inputs["seed"])


def train_and_stop(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """Save, each rank to its own folder as on nodes that share no disk.

    Saves at the start, where rank 0 is held up from outside, and at the stop.
    """
    path = Path(f"rank{dist.get_rank()}", "checkpoint.pt")
    path.parent.mkdir()
    net, optimizer, sampler = fresh(answer, inputs)
    net.load_state_dict(state_of(new_net(inputs["seed"])))
    dist.barrier()
    net.asks = True
    ask(SAVE)
    answer.save(str(path), net, optimizer, sampler)
    ask(SAVED)
    net.asks = False
    dist.barrier()
    taken, odd = take_steps(net, optimizer, sampler, inputs, inputs["steps"])
    answer.save(str(path), net, optimizer, sampler)
    dist.barrier()
    return {"taken": taken, "odd": odd, "saved": state_of(net)}


def hold_rank_0(ranks: Sequence[Any]) -> tuple[Sequence[Any], Server]:
    """A stage's `serve`: rank 0 begins to save after all others, and gets the state late.

    It cannot hurry: what it waits for is in another process. Alone, it is not held up.
    """

    def serve(rank: int, request: Any) -> list[Reply]:
        if type(request) is not str or request not in HELD:
            raise ValueError(f"say one of {sorted(HELD)}")
        return [Reply(rank, after=HELD[request] if rank == 0 and len(ranks) > 1 else 0.0)]

    return ranks, serve


def resume(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """Load, and train to the end of the last epoch."""
    net, optimizer, sampler = fresh(answer, inputs)
    answer.load(PATH, net, optimizer, sampler)
    loaded = state_of(net)
    taken, odd = take_steps(net, optimizer, sampler, inputs, 2 * EPOCHS * PER_EPOCH)
    return {"loaded": loaded, "taken": taken, "odd": odd, "final": state_of(net)}


def killed_while_writing(answer: ModuleType, inputs: dict[str, Any]) -> None:
    """Load, and save one state after the other; rank 0's process is killed while it writes."""
    net, optimizer, sampler = fresh(answer, inputs)
    answer.load(PATH, net, optimizer, sampler)
    net.written_slowly = True
    for _ in range(SAVES):
        with torch.no_grad():
            for tensor in (*net.parameters(), *net.buffers()):
                tensor += 1
        dist.barrier()
        answer.save(PATH, net, optimizer, sampler)


def kill(seed: int) -> Kill:
    """At a writing that does not follow from what a rank is given, or when the file is in parts."""
    replaced, nth = divmod(derived(seed, "kill") % 4, 2)
    return Kill(0, "rank0", 1 + nth, file="checkpoint.pt", replaced=1 + replaced)


def after_the_kill(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """The state in the remaining file, or why it cannot be loaded."""
    net, optimizer, sampler = fresh(answer, inputs)
    try:
        answer.load(PATH, net, optimizer, sampler)
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"}
    return {"loaded": state_of(net)}


def another(world_size: int) -> int:
    return world_size % 4 + 1


def if_killed(ranks: Callable[[int], int]) -> Callable[[int], int]:
    return lambda world_size: ranks(world_size) if world_size in KILLED_AT else 0


STAGES = (
    Stage("train and stop", train_and_stop, serve=hold_rank_0, looks=True),
    Stage("resume", resume, world=another, dies=True),
    Stage(
        "killed while writing",
        killed_while_writing,
        world=if_killed(lambda world_size: world_size),
        dies=True,
        kill=kill,
    ),
    Stage("after the kill", after_the_kill, world=if_killed(lambda _: 1), dies=True),
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
