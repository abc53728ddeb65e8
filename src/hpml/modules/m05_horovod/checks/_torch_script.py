"""Exercise hvd_torch's data, drive and expected values: training by ranks and by one process.

In every step, W ranks must have the weights of one process with W times the batch and W times the
learning rate. Everything is float64: only the order of additions may differ.
"""

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from hpml.checks.compare import state_of
from hpml.checks.kits.served_samples import ServedImages
from hpml.checks.kits.small_images import new_model, noisy_classes
from hpml.checks.seeds import derived

LENGTH, BATCH, EPOCHS = 48, 4, 2  # BATCH is one rank's: 1, 2, 3 and 4 ranks share LENGTH evenly
SIDE = 64  # pixels: a rank's images, 98 kB each, are more than all gradients of a launch
LEARNING_RATE, MOMENTUM = 0.01, 0.9
EARLIER = 5  # ranks of the run that wrote the checkpoint: its rate is theirs
NAME = "checkpoint.pt"
PATH = f"begin 0/{NAME}"  # rank 0's, from where ranks begin


def new_optimizer(model: nn.Module, learning_rate: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=MOMENTUM)


def momenta_of(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor | None]:
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    found = [optimizer.state[p].get("momentum_buffer") for p in parameters]
    return {f"parameter {i}'s": None if m is None else m.clone() for i, m in enumerate(found)}


def set_momenta(optimizer: torch.optim.Optimizer, momenta: Sequence[torch.Tensor]) -> None:
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for parameter, momentum in zip(parameters, momenta, strict=True):
        optimizer.state[parameter]["momentum_buffer"] = momentum.clone()


def inputs(seed: int, world_size: int) -> dict[str, list[dict[str, Any]]]:
    """By stage, for each rank: the images of ten noisy classes, its own model, and the checkpoint's
    content, if it can read one."""
    draw = torch.Generator().manual_seed(seed)
    images, labels = noisy_classes(draw, LENGTH, torch.float64, SIDE)
    saved = new_model(derived(seed, "checkpoint"), torch.float64, SIDE)
    momenta = [
        0.1 * torch.randn(p.shape, generator=draw, dtype=torch.float64) for p in saved.parameters()
    ]
    checkpoint = {"model": state_of(saved), "momenta": momenta}

    def rank(number: int, stage: str, found: Any) -> dict[str, Any]:
        return {
            "stage": stage,
            "rank": number,
            "images": images,
            "labels": labels,
            "seed": derived(seed, f"order of {stage}"),
            "model": derived(seed, f"model of {stage} {number}"),
            "checkpoint": found if number == 0 else None,
        }

    ranks = range(world_size)
    return {
        "begin": [rank(r, "begin", None) for r in ranks],
        "carry on": [rank(r, "carry on", checkpoint) for r in ranks],
    }


def drive(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """Train; returns the weights before each step, those at the end, and those in the file.

    Each rank has a folder of its own, as on nodes that share no disk.
    """
    rank = inputs["rank"]
    folder = Path(f"{inputs['stage']} {rank}")
    folder.mkdir()
    path = folder / NAME
    if inputs["checkpoint"] is not None:
        model = new_model(0, torch.float64, SIDE)
        model.load_state_dict(inputs["checkpoint"]["model"])
        optimizer = new_optimizer(model, LEARNING_RATE * EARLIER)
        set_momenta(optimizer, inputs["checkpoint"]["momenta"])
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)

    model = new_model(inputs["model"], torch.float64, SIDE)
    dataset = ServedImages(inputs["length"])
    states: list[dict[str, torch.Tensor]] = []
    # More than an answer needs even if every rank takes all samples
    most = EPOCHS * LENGTH // BATCH + 1

    def remember(module: nn.Module, _: Any) -> None:
        if len(states) < most:
            states.append(state_of(module))

    model.register_forward_pre_hook(remember)
    answer.train(model, dataset, EPOCHS, BATCH, LEARNING_RATE, inputs["seed"], path=str(path))
    states.append(state_of(model))
    return {"states": states, "saved": saved_state(path) if rank == 0 else None}


def saved_state(path: Path) -> Any:
    """The part of the checkpoint that a resumed run needs, or why it cannot be loaded."""
    try:
        found = torch.load(path)
        model = new_model(0, torch.float64, SIDE)
        model.load_state_dict(found["model"])
        optimizer = new_optimizer(model, LEARNING_RATE)
        optimizer.load_state_dict(found["optimizer"])
        return {"model": state_of(model), "momenta": momenta_of(optimizer)}
    except Exception as error:
        first_line, _, _ = str(error).partition("\n")
        return f"{type(error).__name__}: {first_line}"[:200]


def serial(
    run: dict[str, Any],
    batch: int,
    learning_rate: float,
    *,
    own_momenta: bool = True,
    most: int | None = None,
    shard: tuple[int, int] = (0, 1),
) -> dict[str, Any]:
    """One process with batches of `batch`: its weights before each step and at the end.

    `shard`, (rank, ranks), selects a rank's part of the samples; `most` limits the steps.
    """
    model = new_model(run["model"], torch.float64, SIDE)
    optimizer = new_optimizer(model, learning_rate)
    if run["checkpoint"] is not None:
        model.load_state_dict(run["checkpoint"]["model"])
        if own_momenta:
            set_momenta(optimizer, run["checkpoint"]["momenta"])
    states, taken = [], []
    for epoch in range(EPOCHS):
        draw = torch.Generator().manual_seed(run["seed"] + epoch)
        order = torch.randperm(LENGTH, generator=draw)[shard[0] :: shard[1]]
        for samples in order.split(batch):
            if most is not None and len(states) == most:
                break
            states.append(state_of(model))
            taken += samples.tolist()
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(run["images"][samples]), run["labels"][samples])
            loss.backward()
            optimizer.step()
    states.append(state_of(model))
    return {"states": states, "taken": taken, "momenta": momenta_of(optimizer)}


def expect(inputs: dict[str, list[dict[str, Any]]], world_size: int) -> dict[str, Any]:
    """By stage, the serial script's run with the ranks' batch and rate, and the weights that usual
    mistakes give in the first step."""
    expected = {}
    for stage, ranks in inputs.items():
        run, large = ranks[0], BATCH * world_size
        first = {
            "unscaled": serial(run, large, LEARNING_RATE, most=1),
            "old_rate": serial(run, large, LEARNING_RATE * EARLIER, most=1),
            "old_rate_scaled": serial(run, large, LEARNING_RATE * EARLIER * world_size, most=1),
            "sum": serial(run, large, LEARNING_RATE * world_size**2, most=1),
            "no_optimizer": serial(
                run, large, LEARNING_RATE * world_size, own_momenta=False, most=1
            ),
        }
        alone = [
            serial(run, BATCH, LEARNING_RATE * world_size, most=1, shard=(rank, world_size))
            for rank in range(world_size)
        ]
        expected[stage] = {
            **serial(run, large, LEARNING_RATE * world_size),
            "mistakes": {name: found["states"][-1] for name, found in first.items()},
            "alone": [found["states"][-1] for found in alone],
        }
    return expected
