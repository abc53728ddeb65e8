"""Exercise tensor_parallel's layers, weights, drive and expected values: three steps of training.

A rank asks the parent for weights, slice by slice, and for each step's input and gradient: which
rank read which part of which weight is known there, and when forward and backward were over.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from hpml.ranks import Reply, Server, ask
from hpml.ranks.evidence import RankEvidence

STEPS = 3
RATE = 0.05  # of learning
BATCH, TOKENS, FEATURES, HEADS = 2, 5, 24, 6
HIDDEN = (46, 50, 58)  # none divides by 3 or 4
EXAMPLE = (4, 50)  # ranks and hidden numbers of the text's example
STAGES = {"mlp": "ParallelMLP", "attention": "ParallelAttention"}
PHASES = ("input", "gradient", "step")  # in each step: before forward, backward, the update

Weights = Mapping[str, Tensor]


def mlp(weights: Weights, x: Tensor) -> Tensor:
    """[B, T, features] to [B, T, features]."""
    inner = F.gelu(F.linear(x, weights["up.weight"], weights["up.bias"]))
    return F.linear(inner, weights["down.weight"], weights["down.bias"])


def attention(weights: Weights, x: Tensor) -> Tensor:
    """[B, T, features] to [B, T, features], HEADS heads."""
    query, key, value = (
        F.linear(x, weights[f"{name}.weight"]).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        for name in ("query", "key", "value")
    )
    heads = F.scaled_dot_product_attention(query, key, value)
    return F.linear(heads.transpose(1, 2).flatten(2), weights["out.weight"], weights["out.bias"])


LAYERS = {"mlp": mlp, "attention": attention}


def shapes(stage: str, hidden: int) -> dict[str, tuple[int, ...]]:
    """Of the unsplit layer's weights."""
    if stage == "mlp":
        up, down = (hidden, FEATURES), (FEATURES, hidden)
        return {"up.weight": up, "up.bias": up[:1], "down.weight": down, "down.bias": down[:1]}
    square = {f"{name}.weight": (FEATURES, FEATURES) for name in ("query", "key", "value", "out")}
    return square | {"out.bias": (FEATURES,)}


def split_along(stage: str) -> dict[str, int | None]:
    """The dimension along which each weight is to be split; None: it is whole on every rank."""
    if stage == "mlp":
        return {"up.weight": 0, "up.bias": 0, "down.weight": 1, "down.bias": None}
    across = {f"{name}.weight": 0 for name in ("query", "key", "value")}
    return across | {"out.weight": 1, "out.bias": None}


def share(stage: str, hidden: int, rank: int, world_size: int) -> tuple[int, int]:
    """Start and stop of what a rank has of the split dimension: as `torch.tensor_split` cuts hidden
    numbers, or whole heads."""
    wide, units = (1, hidden) if stage == "mlp" else (FEATURES // HEADS, HEADS)
    mine = torch.arange(units).tensor_split(world_size)[rank]
    return int(mine[0]) * wide, (int(mine[-1]) + 1) * wide


def inputs(seed: int, world_size: int) -> dict[str, list[dict[str, Any]]]:
    """By stage, the same for each rank: `hidden`, the unsplit layer's weights, and for each step an
    input and the gradient of its output, float64 [B, T, features]."""
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    ranks, hidden = EXAMPLE
    if world_size != ranks:
        hidden = HIDDEN[seed % len(HIDDEN)]
    found = {}
    for stage in STAGES:
        rank = {
            "hidden": hidden,
            "weights": {
                name: normal(*shape) / shape[-1] ** 0.5
                for name, shape in shapes(stage, hidden).items()
            },
            "steps": [
                [normal(BATCH, TOKENS, FEATURES), normal(BATCH, TOKENS, FEATURES)]
                for _ in range(STEPS)
            ],
        }
        found[stage] = [rank] * world_size
    return found


def serve(ranks: Sequence[dict[str, Any]]) -> tuple[Sequence[dict[str, Any]], Server]:
    """A stage's `serve`: the weights' slices, and in each step its PHASES, in order."""
    weights, steps = ranks[0]["weights"], ranks[0]["steps"]
    passed: Counter[int] = Counter()  # phases, by rank

    def reply(rank: int, request: Any) -> list[Reply]:
        if isinstance(request, dict):
            return [Reply(rank, slice_of(weights, request))]
        step, phase = divmod(passed[rank], len(PHASES))
        if step >= STEPS or request != PHASES[phase]:
            raise ValueError(f"there is no {str(request)[:40]!r} now")
        passed[rank] += 1
        return [Reply(rank, steps[step][phase] if phase < 2 else None)]

    return [{"hidden": rank["hidden"]} for rank in ranks], reply


def slice_of(weights: Weights, request: Mapping[str, Any]) -> Tensor:
    """What `read` asks for. Raises ValueError where there is no such slice."""
    name, dim, start, stop = (request.get(key) for key in ("read", "dim", "start", "stop"))
    if name not in weights:
        raise ValueError(f"there is no weight {str(name)[:40]!r}: {', '.join(weights)}")
    whole = weights[name]
    if type(dim) is not int or not 0 <= dim < whole.dim():
        raise ValueError(f"{name} has {whole.dim()} dimensions: none is {str(dim)[:20]}")
    size = whole.shape[dim]
    if not all(type(end) is int for end in (start, stop)) or not 0 <= start <= stop <= size:
        ends = f"{str(start)[:20]} to {str(stop)[:20]}"
        raise ValueError(f"dimension {dim} of {name} has {size} elements: there is no {ends}")
    return whole.narrow(dim, start, stop - start).contiguous()


def reads(rank: RankEvidence) -> Iterator[tuple[str, int, int, int]]:
    """(weight, dimension, start, stop) of what a rank was served."""
    for asked in rank.asked:
        if isinstance(asked.request, dict) and not asked.refused:
            yield tuple(asked.request[key] for key in ("read", "dim", "start", "stop"))


def drive(answer: ModuleType, inputs: dict[str, Any], stage: str) -> list[list[Any]]:
    """By step the output, the gradient of the input, and the names of the weights of which
    `parameters()` has nothing."""
    whole = shapes(stage, inputs["hidden"])
    taken: list[tuple[str, Tensor]] = []

    def read(name: str, dim: int = 0, start: int = 0, stop: int | None = None) -> Tensor:
        """Part of an unsplit weight: the elements from start up to stop along dim."""
        if stop is None and name in whole:
            stop = whole[name][dim]
        taken.append((name, ask({"read": name, "dim": dim, "start": start, "stop": stop})))
        return taken[-1][1]

    if stage == "mlp":
        layer = answer.ParallelMLP(FEATURES, inputs["hidden"], read)
    else:
        layer = answer.ParallelAttention(FEATURES, HEADS, read)
    own = torch.cat([torch.empty(0), *(p.detach().flatten() for p in layer.parameters())])
    there = {name for name, part in taken if torch.isin(part, own).any()}  # all numbers differ
    lacking = [name for name in dict(taken) if name not in there]
    found = []
    for _ in range(STEPS):
        x = ask("input").requires_grad_()
        y = layer(x)
        y.backward(ask("gradient"))
        ask("step")
        found.append([y.detach(), x.grad, lacking])
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter -= RATE * parameter.grad
                parameter.grad = None
    return found


def serial(
    stage: str, weights: Weights, steps: Sequence[Sequence[Tensor]], bias: float = 1
) -> list[list[Tensor]]:
    """The same in one process. `bias`: how many times the last bias is added, and how much of its
    gradient is applied."""
    mine = {name: tensor.clone().requires_grad_() for name, tensor in weights.items()}
    last = list(mine)[-1]
    found = []
    for x, gradient in steps:
        x = x.clone().requires_grad_()
        y = LAYERS[stage]({**mine, last: bias * mine[last]}, x)
        y.backward(gradient)
        found.append([y.detach(), x.grad])
        with torch.no_grad():
            for name, tensor in mine.items():
                tensor -= RATE * tensor.grad / (bias if name == last else 1)
                tensor.grad = None
    return found


def expect(inputs: dict[str, list[dict[str, Any]]], world_size: int) -> dict[str, Any]:
    """By stage what `serial` finds, `right` and with the bias `added` once by every rank."""
    return {
        stage: {
            "right": serial(stage, ranks[0]["weights"], ranks[0]["steps"]),
            "added": serial(stage, ranks[0]["weights"], ranks[0]["steps"], world_size),
        }
        for stage, ranks in inputs.items()
    }
