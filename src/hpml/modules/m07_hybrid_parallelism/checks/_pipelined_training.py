"""What the pipeline exercises train: a model whose stages are on ranks, and what should come out.

Where a stage begins it multiplies what came in by factors, and in backward, before anything else,
the gradient that came back by others. It asks the parent for both. So the parent knows when which
rank computes which micro-batch. Factors of samples are known to the parent alone and are sent only
for the right activations, or gradients of the right direction: a pass made for show is not one, and
no pass can be made without asking.
"""

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from hpml.checks.compare import state_of
from hpml.checks.seeds import derived
from hpml.ranks import Reply, Server, ask
from hpml.ranks.evidence import RankEvidence
from hpml.trace.computations import Kind

LEARNING_RATE = 0.4
CLOSE = 1e-9  # float64: only the order of additions may differ
CLASSES = 5
SAMPLES = 3  # of a micro-batch

Rows = tuple[int, ...]  # samples of a batch, by number


# ---- on a rank: a stage that asks, and the steps


class Enter(torch.autograd.Function):
    """The input times the factors of its samples; its gradient likewise."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradient * ctx.factor, None


class Leave(torch.autograd.Function):
    """The output. Its gradient is multiplied by `factor(gradient)`."""

    @staticmethod
    def forward(
        ctx: Any, y: torch.Tensor, factor: Callable[[torch.Tensor], torch.Tensor]
    ) -> torch.Tensor:
        ctx.factor = factor
        return y.view_as(y)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradient * ctx.factor(gradient), None


class Stage(nn.Module):
    """A rank's layers, float64 [N, widths[0]] -> [N, widths[-1]], with a tanh after each but the
    model's `last`. With `wide`, outputs are then scaled by a norm for which so many numbers of each
    sample have to be there in backward.

    `enter(x)` returns what a forward pass is known by, and its factors; `leave(known, gradient)`
    the factors of its backward pass.
    """

    def __init__(
        self, widths: Sequence[int], last: bool, wide: int, enter: Any = None, leave: Any = None
    ) -> None:
        super().__init__()
        layers = [[nn.Linear(n, m), nn.Tanh()] for n, m in itertools.pairwise(widths)]
        flat = [layer for pair in layers for layer in pair]
        self.layers = nn.Sequential(*(flat[:-1] if last else flat)).double()
        self.wide, self.enter, self.leave = wide, enter, leave

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        known, factor = self.enter(x.detach())
        y = self.layers(Enter.apply(x, factor))
        if self.wide:
            places = torch.linspace(0, 1, self.wide, dtype=torch.float64)
            norms = torch.linalg.vector_norm(y[:, :1] + places, dim=1, keepdim=True)
            y = y * (norms / self.wide**0.5)
        return Leave.apply(y, partial(self.leave, known))


def as_number(loss: Any) -> Any:
    """A float, of what is one number, such as a tensor of one element; all else as it is."""
    if isinstance(loss, torch.Tensor):
        return loss.item() if loss.numel() == 1 else loss.detach()
    return loss if loss is None or isinstance(loss, str | list | tuple | dict) else float(loss)


def drive(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """Steps of SGD; returns each step's gradients and loss, whether train_step changed weights, and
    the state at the end."""
    stage = Stage(
        inputs["widths"],
        inputs["last"],
        inputs["wide"],
        lambda x: ask({"forward": x}),
        lambda known, gradient: ask({"backward": gradient, "of": known}),
    )
    stage.layers.load_state_dict(inputs["state"])
    optimizer = torch.optim.SGD(stage.parameters(), LEARNING_RATE)
    gradients, losses, changed = [], [], []
    for _ in range(inputs["steps"]):
        optimizer.zero_grad()
        given, targets, shapes = ask("step")
        before = state_of(stage.layers)
        loss = answer.train_step(stage, given, targets, functional.cross_entropy, shapes)
        ask("stepped")
        after = stage.layers.state_dict()
        changed.append(any(not torch.equal(before[name], after[name]) for name in before))
        losses.append(as_number(loss) if inputs["last"] else None)  # others' do not count
        named = stage.layers.named_parameters()
        gradients.append({k: p.grad.clone() for k, p in named if p.grad is not None})
        optimizer.step()
    found = {"gradients": gradients, "losses": losses, "changed": changed}
    return {**found, "state": state_of(stage.layers)}


# ---- in the parent: what ranks are given


def micro_batches(count: int) -> list[int]:
    """The samples of each of so many micro-batches: the last is smaller."""
    return [SAMPLES] * (count - 1) + [SAMPLES - 1]


def inputs(
    seed: int, world_size: int, sizes: Sequence[list[int]], whole: bool = False, wide: int = 0
) -> list[dict[str, Any]]:
    """For each rank its layers, their weights and what it is served: the micro-batches of step s
    have `sizes[s]` samples. `whole`: one batch that is not a list. `wide` as in `Stage`."""
    draw = torch.Generator().manual_seed(seed)
    dice = random.Random(seed)
    depths = [1 + (rank + seed) % 3 for rank in range(world_size)]  # stages are uneven
    widths = [*dice.sample(range(6, 24), sum(depths)), CLASSES]
    places = [0, *itertools.accumulate(depths)]
    own = [widths[begin : end + 1] for begin, end in itertools.pairwise(places)]
    steps = []
    for each in sizes:
        samples = sum(each)
        x = torch.randn(samples, own[0][0], generator=draw, dtype=torch.float64)
        targets = torch.randint(0, CLASSES, (samples,), generator=draw)
        factors = [[0.5 + torch.rand(samples, n, generator=draw, dtype=torch.float64)
                    for n in (w[0], w[-1])] for w in own]  # fmt: skip
        steps.append({"sizes": each, "x": x, "targets": targets, "factors": factors})
    ranks = []
    for rank, its in enumerate(own):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived(seed, f"weights {rank}"))
            state = state_of(Stage(its, rank == world_size - 1, 0).layers)
        one = {"widths": its, "last": rank == world_size - 1, "state": state, "wide": wide}
        ranks.append({**one, "whole": whole, "served": steps})
    return ranks


@dataclass(frozen=True)
class Step:
    """One step of the whole model in one process. Lists are by rank.

    `gradients[k][rank]` are those of micro-batch k's mean loss, by name; `losses[k]` is that loss.
    """

    sizes: list[int]
    entering: list[torch.Tensor]  # what comes into each stage, by sample
    returning: list[torch.Tensor]  # the gradient at the end of each stage, by sample
    factors: list[list[torch.Tensor]]
    gradients: list[list[dict[str, torch.Tensor]]]
    losses: list[float]

    @property
    def parts(self) -> list[Rows]:
        """Each micro-batch's samples."""
        ends = itertools.accumulate(self.sizes)
        return [tuple(range(end - n, end)) for n, end in zip(self.sizes, ends, strict=True)]

    @property
    def shares(self) -> list[float]:
        """Each micro-batch's weight in the mean over all samples."""
        return [size / sum(self.sizes) for size in self.sizes]

    def mixed(self, rank: int, shares: Sequence[float]) -> dict[str, torch.Tensor]:
        """A rank's gradients, of micro-batches' losses that count so much."""
        return {
            name: sum(s * of[rank][name] for s, of in zip(shares, self.gradients, strict=True))
            for name in self.gradients[0][rank]
        }


def serial(ranks: Sequence[dict[str, Any]]) -> tuple[list[Step], list[dict[str, torch.Tensor]]]:
    """The steps of one process that has all stages, and the states at the end, by rank."""
    stages = [Stage(rank["widths"], rank["last"], rank["wide"]) for rank in ranks]
    for stage, rank in zip(stages, ranks, strict=True):
        stage.layers.load_state_dict(rank["state"])
    optimizer = torch.optim.SGD([p for s in stages for p in s.parameters()], LEARNING_RATE)
    steps = []
    for served in ranks[0]["served"]:
        step = in_one_process(stages, served)
        for number, stage in enumerate(stages):
            right = step.mixed(number, step.shares)
            for name, parameter in stage.layers.named_parameters():
                parameter.grad = right[name]
        optimizer.step()
        steps.append(step)
    return steps, [state_of(stage.layers) for stage in stages]


def in_one_process(stages: Sequence[Stage], served: dict[str, Any]) -> Step:
    """What passes through all stages in a step, micro-batch by micro-batch."""
    entering: list[list[torch.Tensor]] = [[] for _ in stages]
    returning: list[list[torch.Tensor]] = [[] for _ in stages]
    step = Step(served["sizes"], [], [], served["factors"], [], [])

    def enter(number: int, factor: torch.Tensor, x: torch.Tensor) -> tuple[None, torch.Tensor]:
        entering[number].append(x)
        return None, factor

    def leave(number: int, factor: torch.Tensor, _: None, gradient: torch.Tensor) -> torch.Tensor:
        returning[number].append(gradient)
        return factor

    for rows in map(list, step.parts):
        x = served["x"][rows]
        for number, stage in enumerate(stages):
            stage.zero_grad()
            before, after = (factor[rows] for factor in served["factors"][number])
            stage.enter, stage.leave = (
                partial(enter, number, before),
                partial(leave, number, after),
            )
            x = stage(x)
        loss = functional.cross_entropy(x, served["targets"][rows])
        loss.backward()
        step.losses.append(loss.item())
        step.gradients.append(
            [{k: p.grad.clone() for k, p in s.layers.named_parameters()} for s in stages]
        )
    step.entering.extend(map(torch.cat, entering))
    step.returning.extend(map(torch.cat, returning))
    return step


def expect(ranks: Sequence[dict[str, Any]], world_size: int) -> dict[str, Any]:
    steps, states = serial(ranks)
    return {"steps": steps, "states": states, "whole": ranks[0]["whole"]}


def samples_in(x: Any, right: torch.Tensor, direction: bool = False) -> Rows | None:
    """Which samples' rows of `right` the rows of `x` are, in their order; None where one is not
    among them. With `direction`, a row may be any positive number of times the right one."""
    fits = isinstance(x, torch.Tensor) and x.dtype == torch.float64 and x.dim() == 2
    if not fits or x.shape[1:] != right.shape[1:] or not len(x) or not torch.isfinite(x).all():
        return None
    if direction:
        x, right = (functional.normalize(each, dim=1, eps=1e-300) for each in (x, right))
    gaps, rows = (x[:, None] - right[None]).abs().amax(2).min(1)
    return tuple(rows.tolist()) if gaps.max() <= CLOSE * max(1.0, right.abs().max()) else None


def serve(ranks: Sequence[dict[str, Any]]) -> tuple[Sequence[dict[str, Any]], Server]:
    """A launch's `serve`: "step" and "stepped" in turn, and in between the factors of passes."""
    steps, _ = serial(ranks)
    at = [-1] * len(ranks)  # the step that a rank is in
    inside = [False] * len(ranks)
    known: list[list[tuple[int, Rows | None]]] = [[] for _ in ranks]  # forward passes: step, rows

    def batch(rank: int) -> tuple[Any, Any, Any]:
        served = ranks[rank]["served"][at[rank]]
        sizes, whole = served["sizes"], ranks[rank]["whole"]
        given = list(served["x"].split(sizes)) if rank == 0 else None
        targets = list(served["targets"].split(sizes)) if rank == len(ranks) - 1 else None
        shapes = [(size, ranks[rank]["widths"][0]) for size in sizes]
        batch: list[Any] = [given, targets, shapes]
        first, second, third = (each[0] if whole and each else each for each in batch)
        return first, second, third

    def reply(rank: int, request: Any) -> list[Reply]:
        if request == "step" and not inside[rank] and at[rank] + 1 < len(steps):
            at[rank], inside[rank] = at[rank] + 1, True
            return [Reply(rank, batch(rank))]
        if request == "stepped" and inside[rank]:
            inside[rank] = False
            return [Reply(rank)]
        if not isinstance(request, dict) or not inside[rank]:
            raise ValueError("a stage computes within train_step")
        step, ones = steps[at[rank]], torch.ones((), dtype=torch.float64)
        if "forward" in request:
            rows = samples_in(request["forward"], step.entering[rank])
            known[rank].append((at[rank], rows))
            factor = ones if rows is None else step.factors[rank][0][list(rows)]
            return [Reply(rank, (len(known[rank]) - 1, factor))]
        rows = _backward_rows(step, at[rank], rank, request, known[rank])
        factor = ones if rows is None else step.factors[rank][1][list(rows)]
        return [Reply(rank, factor)]

    hidden = ("served", "whole")
    sent = [{k: v for k, v in rank.items() if k not in hidden} for rank in ranks]
    return [{**one, "steps": len(steps)} for one in sent], reply


def _backward_rows(
    step: Step, number: int, rank: int, request: dict[str, Any], known: Sequence[Any]
) -> Rows | None:
    of = request.get("of")
    if not isinstance(of, int) or not 0 <= of < len(known) or known[of][0] != number:
        return None
    forward, gradient = known[of][1], request.get("backward")
    if forward is None:
        return None
    found = samples_in(gradient, step.returning[rank][list(forward)], direction=True)
    return forward if found == tuple(range(len(forward))) else None


# ---- what a rank has computed, by what it asked for


@dataclass(frozen=True)
class Pass:
    """A forward or backward pass of a rank, of these samples; None: of nothing that is known."""

    kind: Kind
    rows: Rows | None


def passes(rank: RankEvidence, steps: Sequence[Step]) -> list[list[Pass]]:
    """Each step's passes of a rank, in their order."""
    found: list[list[Pass]] = []
    known: list[tuple[int, Rows | None]] = []
    for asked in rank.asked:
        request = asked.request
        if asked.refused:
            continue
        if request == "step":
            found.append([])
        elif isinstance(request, dict):
            number = len(found) - 1
            kind: Kind = "forward" if "forward" in request else "backward"
            if kind == "forward":
                rows = samples_in(request["forward"], steps[number].entering[rank.rank])
                known.append((number, rows))
            else:
                rows = _backward_rows(steps[number], number, rank.rank, request, known)
            found[number].append(Pass(kind, rows))
    return found
