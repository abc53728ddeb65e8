"""Exercise ddp's model, batches, drive and expected values: three steps of a wrapped module.

Where ranks have two branches, two more batches follow, whose gradients are to add up. On
FLOAT32_AT ranks the model is float32, else float64.

A rank asks the parent for each step's batch. Backward multiplies by factors in two places, in the
middle and before the last parameter, and the module asks for them when backward comes there. Until
then no gradient from there on can be computed, whatever the answer does: a factor is as large as
what it multiplies, so that gradients computed without it cannot be mended. The parent knows the
moments, and when backward has returned.
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
from hpml.checks.seeds import derived
from hpml.ranks import Reply, Server, ask

# In float32 steps are small: three large ones make a rounding error grow a thousandfold
LEARNING_RATES = {torch.float64: 0.5, torch.float32: 0.05}
AGAIN = "one model, measured again"  # a stage
REFUSED = "refused"
STEPS = 3
FLOAT32_AT = (3,)
HELD = 0.05  # seconds by which the last rank begins the first step later than the others
TOKENS = 256
BATCH, WIDTH = 10, 48
MIDDLE = 2  # of the hidden layers, the last to which backward comes without a factor
PLACES = ("middle", "last")  # in backward's order
BUFFERS = ("shift", "version")


class Scaled(torch.autograd.Function):
    """The input, whose gradient is multiplied by `factor()`, element by element."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factor: Callable[[], torch.Tensor]) -> torch.Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradient * ctx.factor(), None


class Net(nn.Module):
    """Predicts a token from a token, int64 (N,) -> `dtype` (N, 256), with every difficult case.

    The output layer's weight is the embedding's (Press and Wolf, 2017), one layer is frozen, there
    are two buffers, and `branch` ("left", "right" or "both") leaves a layer out. Backward comes to
    the embedding last, and calls `factor("last")` then; before hidden layer MIDDLE - 1 it calls
    `factor("middle")`. Both are (N, 48), of the model's dtype.
    """

    factor: Callable[[str], torch.Tensor] = staticmethod(lambda place: torch.ones(()))

    def __init__(
        self, dtype: torch.dtype, tokens: int = TOKENS, width: int = WIDTH, layers: int = 5
    ) -> None:
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
        self.to(dtype)

    def forward(self, tokens: torch.Tensor, branch: str) -> torch.Tensor:
        x = Scaled.apply(self.embed(tokens), partial(self.factor, "last"))
        x = self.frozen(x + self.shift)
        if branch != "right":
            x = x + torch.tanh(self.left(x))
        for index, layer in enumerate(self.hidden):
            if index == MIDDLE:
                x = Scaled.apply(x, partial(self.factor, "middle"))
            x = x + torch.tanh(layer(x))
        if branch != "left":
            x = x + torch.tanh(self.right(x))
        return self.head(x)


def dtype_on(world_size: int) -> torch.dtype:
    """Of the model, its gradients and factors."""
    return torch.float32 if world_size in FLOAT32_AT else torch.float64


def net_on(world_size: int) -> Net:
    return Net(dtype_on(world_size))


def trained_and_frozen(world_size: int) -> tuple[list[int], int]:
    """Bytes of each trained parameter (a tied one once), and of all frozen ones together."""
    net = net_on(world_size)
    sizes = [(p.requires_grad, p.numel() * p.element_size()) for p in net.parameters()]
    return [n for trained, n in sizes if trained], sum(n for trained, n in sizes if not trained)


def before_the_middle(world_size: int) -> int:
    """Bytes of the gradients that backward has computed when it asks for the middle factor."""
    net = net_on(world_size)
    layers = [net.right, *net.hidden[MIDDLE:]]
    return sum(p.numel() * p.element_size() for layer in layers for p in layer.parameters())


def buckets_of(sizes: Sequence[int], bucket_bytes: int) -> list[int]:
    """The bytes of each bucket, by the exercise's rule; `sizes` of parameters, first one first."""
    buckets: list[int] = []
    for size in reversed(sizes):
        if buckets and buckets[-1] + size <= bucket_bytes:
            buckets[-1] += size
        else:
            buckets.append(size)
    return buckets


def new_state(seed: int, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """A state dict for `Net`, buffers included, drawn from `seed`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = Net(dtype)
        net.shift.normal_()
        net.version.random_(1, 2**40)  # no two ranks are alike by chance
        return {name: tensor.clone() for name, tensor in net.state_dict().items()}


def inputs(seed: int, world_size: int) -> dict[str, list[dict[str, Any]]]:
    """By stage, for each rank: its own state, `bucket_bytes`, and the batches of each step, with
    the factors of its gradients."""
    draw = torch.Generator().manual_seed(seed)
    dtype = dtype_on(world_size)
    weight, bias = (n * dtype.itemsize for n in (WIDTH * WIDTH, WIDTH))
    # So that the first bucket is full to the byte, and the next parameter is a weight
    full = (2 * weight + 3 * bias, 3 * weight + 4 * bias)

    def batch(branch: str) -> list[Any]:
        tokens, targets = torch.randint(0, TOKENS, (2, BATCH), generator=draw)
        shape = len(PLACES), BATCH, WIDTH
        factors = 0.5 + torch.rand(shape, generator=draw, dtype=dtype)
        return [tokens, targets, branch, dict(zip(PLACES, factors, strict=True))]

    def ranks(branches: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        return [
            {
                "state": new_state(derived(seed, f"weights {rank}"), dtype),
                "bucket_bytes": full[seed % 2],
                "batches": [batch(branch) for branch in branches[rank]],
            }
            for rank in range(world_size)
        ]

    sides = ("left", "right")
    one_model = ranks([["both"] * STEPS] * world_size)
    return {
        "one model": one_model,
        AGAIN: one_model,
        "two branches": ranks(
            [
                [*(sides[(rank + step) % 2] for step in range(STEPS)), "both", "both"]
                for rank in range(world_size)
            ]
        ),
    }


def serve(ranks: Sequence[dict[str, Any]]) -> tuple[Sequence[dict[str, Any]], Server]:
    """A stage's `serve`: in each step of a rank "batch", "backward", "synchronized", once each, and
    the factors in between, whenever it asks. Of batches that are left, "batch" alone.

    The last rank gets its first batch late: who does not wait for it has no mean yet.

    An answer may find a way to ask. Where it asks for what the drive is to ask for, the drive is
    refused.
    """
    moments = ("batch", "backward", "synchronized")
    more = len(ranks[0]["batches"]) - STEPS
    due = [*moments * STEPS, *["batch"] * more]
    passed: Counter[int] = Counter()  # moments, by rank

    def reply(rank: int, request: Any) -> list[Reply]:
        batches, done = ranks[rank]["batches"], due[: passed[rank]]
        number = done.count("batch")
        if request in due[passed[rank] :][:1]:
            late = passed[rank] == 0 and rank == len(ranks) - 1 > 0
            passed[rank] += 1
            value = batches[number][:3] if request == "batch" else None
            return [Reply(rank, value, after=HELD if late else 0.0)]
        if done[-1:] in ([], ["synchronized"]) or request not in PLACES:
            raise ValueError(f"there is no {str(request)[:40]!r} now")
        return [Reply(rank, batches[number - 1][3][request])]

    seen = [{k: v for k, v in rank.items() if k != "batches"} for rank in ranks]
    return [rank | {"more": more} for rank in seen], reply


def optimizer_of(net: Net) -> torch.optim.Optimizer:
    rate = LEARNING_RATES[net.embed.weight.dtype]
    return torch.optim.SGD([p for p in net.parameters() if p.requires_grad], rate)


def drive(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """Three steps of SGD; returns the net's state at the start and after each step.

    Where there are more batches, what one synchronize() makes of all their gradients is "together":
    gradients by name, or REFUSED, or another exception that came instead.
    """
    net = Net(inputs["state"]["embed.weight"].dtype)
    net.load_state_dict(inputs["state"])
    net.factor = ask
    wrapped = answer.DataParallel(net, inputs["bucket_bytes"])
    start = state_of(net)
    optimizer = optimizer_of(net)
    after = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        tokens, targets, branch = ask("batch")
        functional.cross_entropy(wrapped(tokens, branch=branch), targets).backward()
        ask("backward")
        wrapped.synchronize()
        ask("synchronized")
        optimizer.step()
        after.append(state_of(net))
    if not inputs["more"]:
        return {"start": start, "after": after}
    optimizer.zero_grad()
    try:
        for _ in range(inputs["more"]):
            tokens, targets, branch = ask("batch")
            functional.cross_entropy(wrapped(tokens, branch=branch), targets).backward()
        wrapped.synchronize()
    except RuntimeError:
        together: Any = REFUSED
    except Exception as error:
        together = f"{type(error).__name__}: {error}"
    else:
        together = gradients_of(net)
    return {"start": start, "after": after, "together": together}


def gradients_of(net: Net) -> dict[str, torch.Tensor]:
    named = net.named_parameters()
    return {name: p.grad.detach().clone() for name, p in named if p.grad is not None}


def serial(
    state: dict[str, torch.Tensor], steps: Sequence[Sequence[Any]], divisor: int
) -> list[dict[str, torch.Tensor]]:
    """The states of one process that takes all the ranks' batches of step k, `steps[k]`, at once.

    The gradient is the sum over the batches of their mean losses' gradients, over `divisor`.
    """
    net = Net(state["embed.weight"].dtype)
    net.load_state_dict(state)
    optimizer = optimizer_of(net)
    after = []
    for batches in steps:
        optimizer.zero_grad()
        for tokens, targets, branch, factors in batches:
            net.factor = factors.__getitem__
            (functional.cross_entropy(net(tokens, branch), targets) / divisor).backward()
        optimizer.step()
        after.append(state_of(net))
    return after


def added_up(
    state: dict[str, torch.Tensor], steps: Sequence[Sequence[Any]], divisor: int
) -> list[dict[str, torch.Tensor]]:
    """The gradients of one process after each of `steps`, where each adds its own."""
    net = Net(state["embed.weight"].dtype)
    net.load_state_dict(state)
    sums = []
    for batches in steps:
        for tokens, targets, branch, factors in batches:
            net.factor = factors.__getitem__
            (functional.cross_entropy(net(tokens, branch), targets) / divisor).backward()
        sums.append(gradients_of(net))
    return sums


def expect(inputs: dict[str, list[dict[str, Any]]], world_size: int) -> dict[str, Any]:
    """By stage: rank 0's `start`, and the states `after` each step; and where there are batches
    after those, the gradients after each of them, `sums`."""
    expected: dict[str, Any] = {}
    for stage, ranks in inputs.items():
        if stage == AGAIN:
            expected[stage] = expected["one model"]
            continue
        start = ranks[0]["state"]
        steps = list(zip(*(rank["batches"] for rank in ranks), strict=True))
        after = serial(start, steps[:STEPS], world_size)
        sums = added_up(after[-1], steps[STEPS:], world_size)
        expected[stage] = {"start": start, "after": after, "sums": sums}
    return expected
