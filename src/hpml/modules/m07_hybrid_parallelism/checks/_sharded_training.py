"""Exercise fsdp's models, batches, drives and expected values.

Between its layers the model of the stage "one model" multiplies what passes by factors, forward and
backward, which it asks the parent for. So the parent knows when which layer computes, and no layer
can compute before: its input is made with the factor.
"""

import itertools
import mmap
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from hpml.checks.compare import state_of
from hpml.checks.seeds import derived
from hpml.ranks import Reply, Server, ask

STEPS = 3
COMPARED = (0, STEPS - 1)  # steps after which the parameters are gathered
BATCH, TOKENS = 6, 97
WIDTHS = (41, 37, 71, 113, 41)
SMALL = 11
# Each element's step depends on its own gradients alone, so that shards can take it. `eps` is about
# as large as gradients are: else gradients W times too large would take nearly the same steps.
OPTIMIZERS: tuple[tuple[str, dict[str, float]], ...] = (
    ("SGD", {"lr": 0.3, "momentum": 0.9, "weight_decay": 0.01}),
    ("AdamW", {"lr": 0.05, "eps": 0.01, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 0.02, "eps": 0.01, "weight_decay": 0.01}),
)
# In the order of use. No two have alike as many elements, but for the tied ones, and none has a
# number that divides by 2, 3 or 4.
USES = ("embed", "frozen", "hidden.0", "hidden.1", "hidden.2", "head")
PLACES = len(USES) - 1  # where factors are asked for: place i is behind use i
TIED = ("embed.weight", "head.weight")


class Factor(torch.autograd.Function):
    """The input times `factor("f0")`; its gradient times `factor("b0")`: element by element."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, place: int, factor: Callable[[str], torch.Tensor]
    ) -> torch.Tensor:
        ctx.place, ctx.factor = place, factor
        return x * factor(f"f{place}")

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return gradient * ctx.factor(f"b{ctx.place}"), None, None


class Net(nn.Module):
    """Predicts a token from a token, int64 (N,) -> float64 (N, 97).

    The output layer's weight is the embedding's, one layer is frozen, and two are too small to be
    sharded. `factor(name)` is float64, as wide as what passes there.
    """

    factor: Callable[[str], torch.Tensor] = staticmethod(lambda name: torch.ones(()))

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(TOKENS, WIDTHS[0])
        self.frozen = nn.Linear(WIDTHS[0], WIDTHS[1]).requires_grad_(False)
        self.hidden = nn.ModuleList(nn.Linear(n, m) for n, m in itertools.pairwise(WIDTHS[1:]))
        self.norm = nn.LayerNorm(WIDTHS[-1])
        self.down, self.up = nn.Linear(WIDTHS[-1], SMALL), nn.Linear(SMALL, WIDTHS[-1])
        self.head = nn.Linear(WIDTHS[-1], TOKENS, bias=False)
        self.head.weight = self.embed.weight
        self.double()

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for place, layer in enumerate([self.frozen, *self.hidden]):
            x = torch.tanh(layer(Factor.apply(x, place, self.factor)))
        x = self.norm(x)
        x = x + self.up(torch.tanh(self.down(x)))
        return self.head(Factor.apply(x, PLACES - 1, self.factor))


def elements() -> dict[str, int]:
    """Elements of each layer's weight, by the layer's name, in the order of use."""
    net = Net()
    return {name: net.get_submodule(name).weight.numel() for name in USES}


def small_elements() -> list[int]:
    """Elements of each parameter that is replicated."""
    sharded = {f"{name}.weight" for name in USES}
    return [p.numel() for name, p in Net().named_parameters() if name not in sharded]


class Projection(nn.Linear):
    """A layer that is sharded like the class that it is made from."""


class Words(nn.Embedding):
    """Likewise."""


class Kinds(nn.Module):
    """What is sharded and what is not: as many elements as matter, a layer of each kind.

    No two have alike as many elements, whole or in shards of up to 4 ranks. It computes nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.linear_1024 = nn.Linear(32, 32, bias=False)
        self.linear_1023 = nn.Linear(31, 33, bias=False)
        self.own_linear = Projection(35, 37, bias=False)
        self.own_embedding = Words(43, 29)
        self.with_bias = nn.Linear(1, 1301)
        self.convolution = nn.Conv1d(19, 17, 5, bias=False)
        self.table = nn.Parameter(torch.empty(53, 31))
        for parameter in self.parameters():
            nn.init.zeros_(parameter)  # equal on all ranks


# Of each of its parameters: what it is, its elements, whether it is sharded
KINDS = (
    ("the weight of an nn.Linear", 1024, True),
    ("the weight of an nn.Linear", 1023, False),
    ("the weight of a subclass of nn.Linear", 35 * 37, True),
    ("the weight of a subclass of nn.Embedding", 43 * 29, True),
    ("the weight of an nn.Linear with a bias as large", 1301, True),
    ("the bias of an nn.Linear", 1301, False),
    ("the weight of an nn.Conv1d", 19 * 17 * 5, False),
    ("a parameter that is no layer's", 53 * 31, False),
)


def script() -> list[str]:
    """What a rank's drive asks for in a step, in this order."""
    forward = [f"f{place}" for place in range(PLACES)]
    backward = [f"b{place}" for place in reversed(range(PLACES))]
    return ["batch", *forward, "forward", *backward, "backward", "synchronized"]


def inputs(seed: int, world_size: int) -> list[dict[str, Any]]:
    """For each rank the same `state` and `optimizer`, the number of one of OPTIMIZERS, and its own
    `steps`: the replies to what it asks for."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived(seed, "weights"))
        state = state_of(Net())
    draw = torch.Generator().manual_seed(seed)

    def step() -> dict[str, Any]:
        factors = {
            f"{way}{place}": 0.5 + torch.rand(WIDTHS[place], generator=draw, dtype=torch.float64)
            for way in "fb"
            for place in range(PLACES)
        }
        return {"batch": list(torch.randint(0, TOKENS, (2, BATCH), generator=draw)), **factors}

    # By the world size, so that each answer meets all of them
    same = {"state": state, "optimizer": world_size % len(OPTIMIZERS)}
    return [{**same, "steps": [step() for _ in range(STEPS)]} for _ in range(world_size)]


def serve(ranks: Sequence[dict[str, Any]]) -> tuple[Sequence[dict[str, Any]], Server]:
    """The stage's `serve`: what is in the script, each in its turn, and nothing else."""
    names = script()
    passed: Counter[int] = Counter()  # by rank

    def reply(rank: int, request: Any) -> list[Reply]:
        step, place = divmod(passed[rank], len(names))
        if step == STEPS or request != names[place]:
            raise ValueError(f"there is no {str(request)[:40]!r} now")
        passed[rank] += 1
        return [Reply(rank, ranks[rank]["steps"][step].get(request))]

    return [{name: rank[name] for name in ("state", "optimizer")} for rank in ranks], reply


def make_optimizer(parameters: Iterable[nn.Parameter], number: int) -> torch.optim.Optimizer:
    """One of OPTIMIZERS, of the parameters that are trained."""
    name, options = OPTIMIZERS[number]
    return getattr(torch.optim, name)([p for p in parameters if p.requires_grad], **options)


def drive(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """Three steps of the drawn optimizer.

    Returns `start` and `after` the steps of COMPARED, gathered parameters by name; and of what
    `parameters()` has, `elements`, `trained`, and whether each has a gradient after the first step;
    and of `Kinds`, wrapped, the elements of each parameter.
    """
    net = Net()
    net.load_state_dict(inputs["state"])
    net.factor = ask
    names = [name for name, _ in net.named_parameters(remove_duplicate=False)]
    wrapped = answer.FullyShard(net)

    def gathered() -> dict[str, torch.Tensor]:
        return {name: wrapped.gather(name) for name in names}

    start = gathered()
    parameters = list(wrapped.parameters())
    optimizer = make_optimizer(parameters, inputs["optimizer"])
    after, with_gradient = [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        tokens, targets = ask("batch")
        loss = functional.cross_entropy(wrapped(tokens), targets)
        ask("forward")
        loss.backward()
        ask("backward")
        wrapped.synchronize()
        ask("synchronized")
        with_gradient = with_gradient or [p.grad is not None for p in parameters]
        optimizer.step()
        after.append(gathered() if step in COMPARED else None)
    return {
        "start": start,
        "after": after,
        "elements": [p.numel() for p in parameters],
        "trained": [p.requires_grad for p in parameters],
        "with_gradient": with_gradient,
        "kinds": [p.numel() for p in answer.FullyShard(Kinds()).parameters()],
    }


def serial(
    state: dict[str, torch.Tensor],
    optimizer: int,
    steps: Sequence[Sequence[dict[str, Any]]],
    divisor: int,
) -> list[dict[str, torch.Tensor]]:
    """The states of one process that takes all the ranks' batches of step k, `steps[k]`, at once.

    The gradient is the sum over the batches of their mean losses' gradients, over `divisor`.
    """
    net = Net()
    net.load_state_dict(state)
    stepper = make_optimizer(net.parameters(), optimizer)
    after = []
    for ranks in steps:
        stepper.zero_grad()
        for replies in ranks:
            net.factor = replies.__getitem__
            tokens, targets = replies["batch"]
            (functional.cross_entropy(net(tokens), targets) / divisor).backward()
        stepper.step()
        after.append(state_of(net))
    return after


def expect(ranks: Sequence[dict[str, Any]], world_size: int) -> list[dict[str, torch.Tensor]]:
    steps = list(zip(*(rank["steps"] for rank in ranks), strict=True))
    return serial(ranks[0]["state"], ranks[0]["optimizer"], steps, world_size)


# The stage "large": 26 MB of weights, 1.6 MB each, for which the kernel's counts are plain


LAYERS, WIDE, LARGE_RATE = 16, 640, 0.1


class Stack(nn.Module):
    """Linear layers of zeros, each added to its input: float32 (N, 640) -> (N, 640).

    Nobody has written to their memory. Until somebody does, the kernel counts nothing for it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Linear(WIDE, WIDE, bias=False, device="meta") for _ in range(LAYERS)
        )
        for layer in self.layers:
            untouched = mmap.mmap(-1, 4 * WIDE**2, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            zeros = torch.frombuffer(untouched, dtype=torch.float32)
            layer.weight = nn.Parameter(zeros.view(WIDE, WIDE))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return x


def large_inputs(seed: int, world_size: int) -> list[torch.Tensor]:
    """Each rank's batch."""
    draw = torch.Generator().manual_seed(derived(seed, "large"))
    return [torch.randn(2, WIDE, generator=draw) for _ in range(world_size)]


def train_large(answer: ModuleType, inputs: torch.Tensor) -> list[dict[str, Any]]:
    """One step of SGD; returns what shows that it was taken: each shard's sum and beginning."""
    wrapped = answer.FullyShard(Stack())
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=LARGE_RATE, foreach=False)
    wrapped(inputs).sum().backward()
    wrapped.synchronize()
    optimizer.step()
    shards = [parameter.detach().flatten() for parameter in wrapped.parameters()]
    return [
        {"sum": float(shard.sum(dtype=torch.float64)), "first": shard[:WIDE].clone()}
        for shard in shards
    ]


def expect_large(batches: Sequence[torch.Tensor], world_size: int) -> list[dict[str, Any]]:
    """By rank: of each layer's shard, which are alike, what `train_large` returns.

    Weights of zeros hand on what they get, so that dL/dW = 1 x^T, added up over the batch.
    """
    row = -LARGE_RATE * torch.stack([batch.sum(0) for batch in batches]).mean(0)
    shards = row.repeat(WIDE).split(-(-(WIDE**2) // world_size))
    return [
        {"sum": float(shard.sum(dtype=torch.float64)), "first": shard[:WIDE]} for shard in shards
    ]
