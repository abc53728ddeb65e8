"""Exercise gradient_hooks' model, batches, drive and expected values: steps of a hooked model.

A rank asks the parent for each step's batch. In four places backward multiplies by factors that it
asks for when it comes there. Until then no gradient from there on can be computed, whatever the
answer does: the factors are as large as what they multiply. The parent knows these moments.

The weights stay as they are: each step's gradients are judged by themselves.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from hpml.checks.seeds import derived
from hpml.ranks import Reply, Server, ask, mark

TOKENS, WIDTH, BATCH = 256, 32, 10
PLACES = ("hidden.0", "left and right", "first", "embed")  # in backward's order
MOMENTS = ("batch", *PLACES, "backward", "finished")  # what a rank asks for, in each step
SIDES = ("left", "right")
STEPS = 4
APART = 2  # from this step on, not all ranks go over the branches in the same order
FINISHED = "finish has returned"  # a mark


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
    """Predicts a token from a token, int64 (N,) -> float64 (N, 256).

    The output layer's weight is the embedding's, and one layer is frozen. Two branches are added
    up in the order of `branches`, a sequence of "left" and "right". When backward is about to leave
    a layer behind it calls `factor(place)`, float64 (N, 32), for each of PLACES.
    """

    factor: Callable[[str], torch.Tensor] = staticmethod(lambda place: torch.ones(()))

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(WIDTH))
        self.embed = nn.Embedding(TOKENS, WIDTH)
        self.frozen = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
        self.first = nn.Linear(WIDTH, WIDTH)
        self.left = nn.Linear(WIDTH, WIDTH)
        self.right = nn.Linear(WIDTH, WIDTH)
        self.hidden = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.head = nn.Linear(WIDTH, TOKENS, bias=False)
        self.head.weight = self.embed.weight
        self.double()

    def forward(self, tokens: torch.Tensor, branches: Iterable[str]) -> torch.Tensor:
        x = self._comes_to("embed", self.embed(tokens) + self.shift)
        x = self.frozen(x)
        x = self._comes_to("first", x + torch.tanh(self.first(x)))
        both = [torch.tanh(getattr(self, branch)(x)) for branch in branches]
        x = self._comes_to("left and right", x + sum(both))
        x = self._comes_to("hidden.0", x + torch.tanh(self.hidden[0](x)))
        return self.head(x + torch.tanh(self.hidden[1](x)))

    def _comes_to(self, place: str, x: torch.Tensor) -> torch.Tensor:
        return Scaled.apply(x, partial(self.factor, place))


def sizes() -> dict[str, int]:
    """Bytes of each trained parameter, by name; a tied one once."""
    return {name: p.nbytes for name, p in Net().named_parameters() if p.requires_grad}


def frozen_bytes() -> int:
    return sum(p.nbytes for p in Net().parameters() if not p.requires_grad)


def ready_at() -> dict[str, int]:
    """Bytes of the gradients that are complete when backward comes to each of PLACES."""
    layers = ("hidden.1", "hidden.0", "left right", "first")
    total, found = 0, {}
    for place, behind in zip(PLACES, layers, strict=True):
        names = tuple(f"{layer}." for layer in behind.split())
        total += sum(nbytes for name, nbytes in sizes().items() if name.startswith(names))
        found[place] = total
    return found


def new_state(seed: int) -> dict[str, torch.Tensor]:
    """A state dict for `Net`, drawn from `seed`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = Net()
        nn.init.normal_(net.shift)
        return {name: tensor.clone() for name, tensor in net.state_dict().items()}


def other_way_round(rank: int, step: int) -> bool:
    """Whether the rank goes over the branches last one first in this step."""
    return step >= APART and (rank + step) % 2 == 1


def inputs(seed: int, world_size: int) -> dict[str, list[dict[str, Any]]]:
    """By stage, for each rank: the state, the same on all, and its batches, with factors.

    In "one rank is late" there is one step, and `late` is the rank that is held up in it.
    """
    draw = torch.Generator().manual_seed(seed)
    state = new_state(derived(seed, "weights"))

    def batch(rank: int, step: int) -> list[Any]:
        tokens, targets = torch.randint(0, TOKENS, (2, BATCH), generator=draw)
        shape = len(PLACES), BATCH, WIDTH
        factors = 0.5 + torch.rand(shape, generator=draw, dtype=torch.float64)
        branches = [*reversed(SIDES)] if other_way_round(rank, step) else [*SIDES]
        return [tokens, targets, branches, dict(zip(PLACES, factors, strict=True))]

    def ranks(steps: int, late: int | None) -> list[dict[str, Any]]:
        return [
            {
                "state": state,
                "late": late,
                "batches": [batch(rank, step) for step in range(steps)],
            }
            for rank in range(world_size)
        ]

    return {
        "train": ranks(STEPS, None),
        "one rank is late": ranks(1, derived(seed, "late") % world_size),
    }


def serve(ranks: Sequence[dict[str, Any]]) -> tuple[Sequence[dict[str, Any]], Server]:
    """A stage's `serve`: in each step of a rank all of MOMENTS, in order, once each.

    An answer may find a way to ask; where it asks in the drive's place, the drive is refused. The
    late rank gets its first factor when all others have come to the last place: a rank that waits
    for the late one's gradients before that waits for ever.
    """
    asked = [0] * len(ranks)
    late = ranks[0]["late"]
    there: set[int] = set()  # ranks that have come to the last place
    held: list[Reply] = []

    def reply(rank: int, request: Any) -> list[Reply]:
        step, moment = divmod(asked[rank], len(MOMENTS))
        batches = ranks[rank]["batches"]
        if step >= len(batches) or request != MOMENTS[moment]:
            raise ValueError(f"there is no {str(request)[:40]!r} now")
        asked[rank] += 1
        if request not in PLACES:
            return [Reply(rank, batches[step][:3] if request == "batch" else None)]
        own = Reply(rank, batches[step][3][request])
        if late is None or len(ranks) == 1:
            return [own]
        if rank != late:
            if request == PLACES[-1]:
                there.add(rank)
            released = held if len(there) == len(ranks) - 1 else []
            replies = [own, *released]
            released.clear()
            return replies
        if request == PLACES[0] and len(there) < len(ranks) - 1:
            held.append(own)
            return []
        return [own]

    return [{"state": rank["state"], "steps": len(rank["batches"])} for rank in ranks], reply


def drive(answer: ModuleType, inputs: dict[str, Any]) -> list[dict[str, torch.Tensor]]:
    """Each step's gradients, by the parameters' names, as they are when `finish` has returned."""
    net = Net()
    net.load_state_dict(inputs["state"])
    net.factor = ask
    finish = answer.hook_gradients(net)
    if not callable(finish):
        kind = type(finish).__name__
        raise TypeError(f"hook_gradients returned a {kind}: return the function finish")
    found = []
    for step in range(inputs["steps"]):
        net.zero_grad(set_to_none=step % 2 == 0)
        tokens, targets, branches = ask("batch")
        functional.cross_entropy(net(tokens, branches), targets).backward()
        ask("backward")
        finish()
        mark(FINISHED)
        got = {name: p.grad for name, p in net.named_parameters() if p.grad is not None}
        found.append({name: grad.detach().clone() for name, grad in got.items()})
        ask("finished")
    return found


def own_gradients(given: dict[str, Any]) -> list[dict[str, torch.Tensor]]:
    """What backward alone computes on the rank with this input, step by step."""
    net = Net()
    net.load_state_dict(given["state"])
    found = []
    for tokens, targets, branches, factors in given["batches"]:
        net.zero_grad()
        net.factor = factors.__getitem__
        functional.cross_entropy(net(tokens, branches), targets).backward()
        got = {name: p.grad for name, p in net.named_parameters() if p.grad is not None}
        found.append({name: grad.clone() for name, grad in got.items()})
    return found


def expect(
    inputs: dict[str, list[dict[str, Any]]], world_size: int
) -> list[list[dict[str, torch.Tensor]]]:
    """By rank and step of "train": the rank's own gradients."""
    return [own_gradients(given) for given in inputs["train"]]
