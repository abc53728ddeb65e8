"""Exercise moe_all_to_all's tokens, experts, drives and expected values.

Each rank has tokens and experts of its own. An expert needs a shift of its hidden numbers, another
one in each call, which it asks the parent for. So the parent knows which rank applied which expert,
and how often.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from hpml.ranks import Reply, Server, ask

WIDTH, HIDDEN = 48, 20
TOKENS = 90  # of a rank, at most
RATE = 0.05  # of learning
# What a drive asks for in each call of the layer, in order; shifts besides
PHASES = {"forward": ("tokens", "output"), "training": ("tokens", "gradient", "step")}
# Each call: whether all tokens fit, which rank has no tokens, whose experts have none; -1: nobody
CALLS = {
    "forward": ((True, -1, -1), (True, 0, -1), (True, -1, 1), (False, -1, -1), (False, 1, 0)),
    "training": ((False, -1, -1), (False, 0, 1), (False, 1, -1)),
}
MISTAKES = ("gate", "gate_before", "capacity", "per_rank", "backwards", "dropped", "placement")

Call = list[Any]  # of a rank: x, choice, gate, capacity


class Expert(nn.Module):
    """[n, width] to [n, width]. Each call asks the parent for a shift of the hidden numbers."""

    def __init__(self, number: int, up: Tensor, down: Tensor) -> None:
        super().__init__()
        self.number = number
        self.up, self.down = nn.Parameter(up.clone()), nn.Parameter(down.clone())

    def forward(self, x: Tensor) -> Tensor:
        shift = ask(["shift", self.number, len(x)])
        return torch.tanh(x @ self.up + shift) @ self.down


def inputs(seed: int, world_size: int) -> dict[str, list[dict[str, Any]]]:
    """By stage and for each rank: `first`, the number of its first expert; `experts`, their
    weights; `calls`: x [n, width], choice [n], gate [n], the capacity; `gradients` of the outputs;
    `shifts` of its experts' hidden numbers, by call and expert."""
    draw = torch.Generator().manual_seed(seed)
    each = 2 + world_size % 2  # so that every play has both

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    def whole(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=draw))

    def call(fits: bool, empty: int, idle: int) -> tuple[list[Call], list[Tensor]]:
        lengths = [whole(TOKENS // 2, TOKENS) for _ in range(world_size)]
        if 0 <= empty < world_size > 1:
            lengths[empty] = 0
        wanted = torch.ones(world_size * each, dtype=torch.float64)
        wanted[whole(0, len(wanted))] = 3  # one expert that is asked for more often
        if 0 <= idle < world_size > 1:
            wanted[idle * each : (idle + 1) * each] = 0
        choices = [
            torch.multinomial(wanted, n, replacement=True, generator=draw)
            if n
            else torch.zeros(0, dtype=torch.int64)
            for n in lengths
        ]
        # Tight: about half of the tokens are dropped
        capacity = sum(lengths) if fits else sum(lengths) // (2 * int((wanted > 0).sum()))
        ranks = [
            [normal(n, WIDTH), choice, 0.2 + torch.rand(n, generator=draw).double(), capacity]
            for n, choice in zip(lengths, choices, strict=True)
        ]
        return ranks, [normal(n, WIDTH) for n in lengths]

    found = {}
    for stage, kinds in CALLS.items():
        calls = [call(*kind) for kind in kinds]
        found[stage] = [
            {
                "first": rank * each,
                "experts": [
                    [normal(WIDTH, HIDDEN) / WIDTH**0.5, normal(HIDDEN, WIDTH) / HIDDEN**0.5]
                    for _ in range(each)
                ],
                "calls": [ranks[rank] for ranks, _ in calls],
                "gradients": [gradients[rank] for _, gradients in calls],
                "shifts": [[normal(HIDDEN) for _ in range(each)] for _ in calls],
            }
            for rank in range(world_size)
        ]
    return found


def serve(ranks: Sequence[dict[str, Any]], stage: str) -> tuple[Sequence[dict[str, Any]], Server]:
    """A stage's `serve`: in each call its PHASES, in order, and the shifts of a rank's experts.

    No rank goes on from an "output" before all have theirs: the exchanges of two calls never meet.
    """
    phases = PHASES[stage]
    passed: Counter[int] = Counter()  # phases, by rank
    come: list[int] = []  # ranks that have their output

    def reply(rank: int, request: Any) -> list[Reply]:
        own = ranks[rank]
        number, place = divmod(passed[rank], len(phases))
        if isinstance(request, list) and request[:1] == ["shift"] and len(request) == 3:
            expert = request[1] - own["first"] if type(request[1]) is int else -1
            if place and 0 <= expert < len(own["experts"]):
                return [Reply(rank, own["shifts"][number][expert])]
        elif number < len(own["calls"]) and request == phases[place]:
            passed[rank] += 1
            if request == "output":
                come.append(rank)
                together = [Reply(one) for one in come] if len(come) == len(ranks) else []
                del come[: len(together)]
                return together
            replies = {"tokens": own["calls"][number], "gradient": own["gradients"][number]}
            return [Reply(rank, replies.get(request))]
        raise ValueError(f"there is no {str(request)[:40]!r} now")

    return [{"first": own["first"], "experts": own["experts"]} for own in ranks], reply


def run_forward(answer: ModuleType, inputs: dict[str, Any]) -> list[Tensor]:
    """The output of each call."""
    experts = [Expert(inputs["first"] + n, *pair) for n, pair in enumerate(inputs["experts"])]
    outputs = []
    for _ in CALLS["forward"]:
        x, choice, gate, capacity = ask("tokens")
        y = answer.moe(x, choice, gate, experts, capacity)
        ask("output")
        outputs.append(y.detach() if isinstance(y, torch.Tensor) else y)
    return outputs


def train(answer: ModuleType, inputs: dict[str, Any]) -> list[dict[str, Any]]:
    """For each step the `output`, the gradients of `x` and `gate`, the `experts` after it."""
    experts = [Expert(inputs["first"] + n, *pair) for n, pair in enumerate(inputs["experts"])]
    found = []
    for _ in CALLS["training"]:
        x, choice, gate, capacity = ask("tokens")
        x.requires_grad_()
        gate.requires_grad_()
        y = answer.moe(x, choice, gate, experts, capacity)
        y.backward(ask("gradient"))
        ask("step")
        with torch.no_grad():
            for expert in experts:
                for parameter in expert.parameters():
                    if parameter.grad is not None:
                        parameter -= RATE * parameter.grad
                    parameter.grad = None
        after = [[expert.up.detach().clone(), expert.down.detach().clone()] for expert in experts]
        found.append({"output": y.detach(), "x": x.grad, "gate": gate.grad, "experts": after})
    return found


# ---- one process that has all tokens and all experts


def kept(calls: Sequence[Call], mistake: str = "") -> list[Tensor]:
    """For each rank which of its tokens are not dropped, bool [n]."""
    taken: Counter[Any] = Counter()
    found = [torch.zeros(len(choice), dtype=torch.bool) for _, choice, *_ in calls]
    order = [(rank, token) for rank, mine in enumerate(found) for token in range(len(mine))]
    for rank, token in reversed(order) if mistake == "backwards" else order:
        expert, capacity = int(calls[rank][1][token]), calls[rank][3]
        place = (rank, expert) if mistake == "per_rank" else expert
        taken[place] += 1
        found[rank][token] = mistake == "capacity" or taken[place] <= capacity
    return found


def layer(
    calls: Sequence[Call],
    experts: Sequence[Sequence[Tensor]],
    shifts: Sequence[Tensor],
    mistake: str = "",
) -> list[Tensor]:
    """Every rank's output; with a `mistake` of MISTAKES, what comes of it."""
    outputs = []
    world_size = len(calls)
    for (x, choice, gate, _), stays in zip(calls, kept(calls, mistake), strict=True):
        y = torch.zeros_like(x)
        if mistake == "placement":  # experts dealt out to the ranks by turns
            each = len(experts) // world_size
            choice = choice % world_size * each + choice // world_size
        for number, ((up, down), shift) in enumerate(zip(experts, shifts, strict=True)):
            tokens = torch.nonzero(stays & (choice == number))[:, 0]
            factor = gate[tokens, None]
            rows = x[tokens] * factor if mistake == "gate_before" else x[tokens]
            out = torch.tanh(rows @ up + shift) @ down
            out = out if mistake in ("gate", "gate_before") else out * factor
            y = y.index_copy(0, tokens, out)
        outputs.append(torch.where(stays[:, None], y, x) if mistake == "dropped" else y)
    return outputs


def by_call(ranks: Sequence[dict[str, Any]], number: int) -> tuple[list[Call], list[Tensor]]:
    """A call's tokens by rank, and all experts' shifts."""
    shifts = [shift for own in ranks for shift in own["shifts"][number]]
    return [own["calls"][number] for own in ranks], shifts


def serial_steps(ranks: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """By step and rank, what `train` returns."""
    experts = [[t.clone() for t in pair] for own in ranks for pair in own["experts"]]
    each = len(ranks[0]["experts"])
    found = []
    for number in range(len(CALLS["training"])):
        calls, shifts = by_call(ranks, number)
        mine = [
            [x.clone().requires_grad_(), choice, gate.clone().requires_grad_(), capacity]
            for x, choice, gate, capacity in calls
        ]
        flat = [t.requires_grad_() for pair in experts for t in pair]
        outputs = layer(mine, experts, shifts)
        sources = [t for call in mine for t in (call[0], call[2])] + flat
        gradients = torch.autograd.grad(
            outputs, sources, [own["gradients"][number] for own in ranks], materialize_grads=True
        )
        changed = [
            (tensor - RATE * gradient).detach()
            for tensor, gradient in zip(flat, gradients[2 * len(ranks) :], strict=True)
        ]
        experts = [changed[n : n + 2] for n in range(0, len(changed), 2)]
        found.append(
            [
                {
                    "output": outputs[rank].detach(),
                    "x": gradients[2 * rank],
                    "gate": gradients[2 * rank + 1],
                    "experts": experts[rank * each : (rank + 1) * each],
                }
                for rank in range(len(ranks))
            ]
        )
    return found


def forward_outputs(ranks: Sequence[dict[str, Any]], mistake: str = "") -> list[list[Tensor]]:
    """By call and rank, what `run_forward` returns."""
    experts = [pair for own in ranks for pair in own["experts"]]
    found = []
    for number in range(len(CALLS["forward"])):
        calls, shifts = by_call(ranks, number)
        found.append(layer(calls, experts, shifts, mistake))
    return found


def expect(inputs: dict[str, list[dict[str, Any]]], world_size: int) -> dict[str, Any]:
    return {
        "forward": forward_outputs(inputs["forward"]),
        "training": serial_steps(inputs["training"]),
    }


# ---- what must travel, and what experts are applied to


def rows_of(ranks: Sequence[dict[str, Any]], number: int) -> list[list[int]]:
    """In one call, how many tokens of each rank each expert takes, [rank][expert]."""
    calls, _ = by_call(ranks, number)
    experts = len(ranks) * len(ranks[0]["experts"])
    return [
        torch.bincount(call[1][stays], minlength=experts).tolist()
        for call, stays in zip(calls, kept(calls), strict=True)
    ]


def enough_bytes(ranks: Sequence[dict[str, Any]], stage: str) -> list[int]:
    """What each rank has to send in all calls of a stage: tokens to other ranks' experts, and its
    experts' outputs to other ranks' tokens; in training as many gradients."""
    each, times = len(ranks[0]["experts"]), 2 if stage == "training" else 1
    sent = [0] * len(ranks)
    for number in range(len(CALLS[stage])):
        for rank, experts in enumerate(rows_of(ranks, number)):
            for expert, rows in enumerate(experts):
                if (host := expert // each) != rank:
                    sent[rank] += rows
                    sent[host] += rows
    return [times * rows * WIDTH * 8 for rows in sent]


def applied(asked: Iterable[Any], stage: str) -> list[list[tuple[int, int]]]:
    """For each call, which experts a rank applied in forward to how many rows, in order."""
    found: list[list[tuple[int, int]]] = []
    inside = False
    for one in asked:
        if one.refused:
            continue
        if isinstance(one.request, list):
            if inside:
                found[-1].append((one.request[1], one.request[2]))
        else:
            inside = one.request == "tokens"
            if inside:
                found.append([])
    return found
