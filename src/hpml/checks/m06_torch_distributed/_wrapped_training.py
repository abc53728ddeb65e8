"""Exercise ddp's model, batches, drive and expected values: three steps of a wrapped module.

A rank asks the parent for each step's batch. The last gradient of backward has a factor, which the
module asks for when backward comes to it: until then that gradient is not ready, whatever the
answer does, and the parent knows the moment.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from hpml.checks.compare import state_of
from hpml.ranks import Reply, Server, ask

LEARNING_RATE = 0.5
STEPS = 3
TOKENS = 256
BUFFERS = ("shift", "version")


class Scaled(torch.autograd.Function):
    """The input, whose gradient is multiplied by `factor()`."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factor: Callable[[], float]) -> torch.Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradient * ctx.factor(), None


class Net(nn.Module):
    """Predicts a token from a token, int64 (N,) -> float64 (N, 256), with every difficult case.

    The output layer's weight is the embedding's (Press and Wolf, 2017), one layer is frozen, there
    are two buffers, and `branch` ("left", "right" or "both") leaves a layer out. Backward comes to
    the embedding last, and calls `factor` then.
    """

    factor: Callable[[], float] = staticmethod(lambda: 1.0)

    def __init__(self, tokens: int = TOKENS, width: int = 48, layers: int = 5) -> None:
        super().__init__()
        self.embed = nn.Embedding(tokens, width)
        self.frozen = nn.Linear(width, width).requires_grad_(False)
        self.left = nn.Linear(width, width)
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.right = nn.Linear(width, width)
        self.head = nn.Linear(width, tokens, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("shift", torch.zeros(width))
        self.register_buffer("version", torch.tensor(0))
        self.double()

    def forward(self, tokens: torch.Tensor, branch: str) -> torch.Tensor:
        x = self.frozen(Scaled.apply(self.embed(tokens), self.factor) + self.shift)
        if branch != "right":
            x = x + torch.tanh(self.left(x))
        for layer in self.hidden:
            x = x + torch.tanh(layer(x))
        if branch != "left":
            x = x + torch.tanh(self.right(x))
        return self.head(x)


def trained_and_frozen() -> tuple[list[int], int]:
    """Bytes of each trained parameter (a tied one once), and of all frozen ones together."""
    sizes = [(p.requires_grad, p.numel() * p.element_size()) for p in Net().parameters()]
    return [n for trained, n in sizes if trained], sum(n for trained, n in sizes if not trained)


def new_state(seed: int) -> dict[str, torch.Tensor]:
    """A state dict for `Net`, buffers included, drawn from `seed`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = Net()
        net.shift.normal_()
        net.version.fill_(1 + seed % 1000)
        return {name: tensor.clone() for name, tensor in net.state_dict().items()}


def inputs(seed: int, world_size: int) -> dict[str, list[dict[str, Any]]]:
    """By stage, for each rank: its own state, `bucket_bytes`, and the batches of each step, with
    the factor of its last gradient."""
    draw = torch.Generator().manual_seed(seed)

    def batch(branch: str) -> list[Any]:
        tokens, targets = torch.randint(0, TOKENS, (2, 10), generator=draw)
        return [tokens, targets, branch, 0.5 + torch.rand((), generator=draw).item()]

    def ranks(branches: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        return [
            {
                "state": new_state(seed + 7 * rank),
                "bucket_bytes": (40_000, 52_000, 64_000)[seed % 3],
                "batches": [batch(branch) for branch in branches[rank]],
            }
            for rank in range(world_size)
        ]

    sides = ("left", "right")
    return {
        "one model": ranks([["both"] * STEPS] * world_size),
        "two branches": ranks(
            [[sides[(rank + step) % 2] for step in range(STEPS)] for rank in range(world_size)]
        ),
    }


def serve(ranks: Sequence[dict[str, Any]]) -> tuple[Sequence[dict[str, Any]], Server]:
    """A stage's `serve`: in each step of a rank "batch", then "factor", then "synchronized"."""
    step: Counter[int] = Counter()

    def reply(rank: int, request: Any) -> list[Reply]:
        step[rank] += request == "batch"
        if request not in ("batch", "factor", "synchronized") or not 1 <= step[rank] <= STEPS:
            raise ValueError(f"there is no {str(request)[:40]!r} now")
        *batch, factor = ranks[rank]["batches"][step[rank] - 1]
        value = {"batch": batch, "factor": factor, "synchronized": None}[request]
        return [Reply(rank, value)]

    return [{k: v for k, v in rank.items() if k != "batches"} for rank in ranks], reply


def drive(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """Three steps of SGD; returns the net's state at the start and after each step."""
    net = Net()
    net.load_state_dict(inputs["state"])
    net.factor = partial(ask, "factor")
    wrapped = answer.DataParallel(net, inputs["bucket_bytes"])
    start = state_of(net)
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], LEARNING_RATE)
    after = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        tokens, targets, branch = ask("batch")
        functional.cross_entropy(wrapped(tokens, branch), targets).backward()
        wrapped.synchronize()
        ask("synchronized")
        optimizer.step()
        after.append(state_of(net))
    return {"start": start, "after": after}


def serial(
    state: dict[str, torch.Tensor], steps: Sequence[Sequence[Any]], divisor: int
) -> list[dict[str, torch.Tensor]]:
    """The states of one process that takes all the ranks' batches of step k, `steps[k]`, at once.

    The gradient is the sum over the batches of their mean losses' gradients, over `divisor`.
    """
    net = Net()
    net.load_state_dict(state)
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], LEARNING_RATE)
    after = []
    for batches in steps:
        optimizer.zero_grad()
        for tokens, targets, branch, factor in batches:
            net.factor = partial(float, factor)
            (functional.cross_entropy(net(tokens, branch), targets) / divisor).backward()
        optimizer.step()
        after.append(state_of(net))
    return after


def expect(inputs: dict[str, list[dict[str, Any]]], world_size: int) -> dict[str, Any]:
    """By stage: rank 0's `start`, and the states `after` each step."""
    expected = {}
    for stage, ranks in inputs.items():
        start = ranks[0]["state"]
        steps = list(zip(*(rank["batches"] for rank in ranks), strict=True))
        expected[stage] = {"start": start, "after": serial(start, steps, world_size)}
    return expected
