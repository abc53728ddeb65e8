"""Exercise mesh_2d: groups of a data × tensor mesh, and which sum goes over which.

`Mesh(data, tensor)` with `enter(x)`, `leave(part)` and `average(parameters)`, which a layer of the
drive's calls.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from hpml.checks.compare import difference
from hpml.checks.contract import Check, Claim, Problem, Run
from hpml.checks.kits.ready_made import ALL_ELSE
from hpml.modules.m07_hybrid_parallelism.checks._parallel_layers import (
    BATCH,
    FEATURES,
    RATE,
    TOKENS,
    mlp,
    shapes,
    share,
    split_along,
)
from hpml.modules.m07_hybrid_parallelism.checks.tensor_parallel import DTENSOR
from hpml.ranks import Reply, Server, ask, mark
from hpml.ranks.evidence import Call, RankEvidence

# It divides by 2, 3 and 4: slices have one shape, and a call that mixes them up goes through
HIDDEN = 48
STEPS = 2
TOLERANCE = 1e-9  # float64: only the order of additions may differ
MESSAGE = 8 * BATCH * TOKENS * FEATURES  # bytes of an input or an output
PHASES = ("input", "gradient", "average", "step")  # of each step, in order
# (data, tensor), for each number of ranks
MESHES = {
    1: ((1, 1),),
    2: ((1, 2), (2, 1)),
    3: ((1, 3), (3, 1)),
    4: ((2, 2), (1, 4), (4, 1)),
}


def groups_of(rank: int, mesh: tuple[int, int]) -> dict[str, tuple[int, ...]]:
    """The ranks that are in a rank's group of each kind."""
    data, tensor = mesh
    first = rank // tensor * tensor
    return {
        "tensor": tuple(range(first, first + tensor)),
        "data": tuple(range(rank % tensor, data * tensor, tensor)),
    }


def slice_of(weights: dict[str, Tensor], place: int, tensor: int) -> list[Tensor]:
    """The part of each weight at a place of the tensor dimension."""
    start, stop = share("mlp", HIDDEN, place, tensor)
    along = split_along("mlp")
    return [
        weight if along[name] is None else weight.narrow(along[name], start, stop - start)
        for name, weight in weights.items()
    ]


def inputs(seed: int, world_size: int) -> list[dict[str, Any]]:
    """For each rank and mesh: `sizes`, its `weights`, and `steps`: an input and the output's
    gradient, float64 [B, T, features], the same on ranks that differ only in their tensor place.
    `whole` are the unsplit weights by mesh: the parent's."""
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    found: list[dict[str, Any]] = [{"meshes": [], "whole": []} for _ in range(world_size)]
    for data, tensor in MESHES[world_size]:
        whole = {n: normal(*s) / s[-1] ** 0.5 for n, s in shapes("mlp", HIDDEN).items()}
        steps = [
            [[normal(BATCH, TOKENS, FEATURES) for _ in range(2)] for _ in range(STEPS)]
            for _ in range(data)
        ]
        for rank in range(world_size):
            weights = [part.contiguous() for part in slice_of(whole, rank % tensor, tensor)]
            mesh = {"sizes": [data, tensor], "weights": weights, "steps": steps[rank // tensor]}
            found[rank]["meshes"].append(mesh)
            found[rank]["whole"].append(whole)
    return found


def serve(ranks: Sequence[dict[str, Any]]) -> tuple[Sequence[dict[str, Any]], Server]:
    """The stage's `serve`: in each step of each mesh its PHASES, in order."""
    passed: Counter[int] = Counter()  # phases, by rank

    def reply(rank: int, request: Any) -> list[Reply]:
        number, phase = divmod(passed[rank], len(PHASES))
        mesh, step = divmod(number, STEPS)
        meshes = ranks[rank]["meshes"]
        if mesh >= len(meshes) or request != PHASES[phase]:
            raise ValueError(f"there is no {str(request)[:40]!r} now")
        passed[rank] += 1
        return [Reply(rank, meshes[mesh]["steps"][step][phase] if phase < 2 else None)]

    sent = [
        {"meshes": [{"sizes": m["sizes"], "weights": m["weights"]} for m in own["meshes"]]}
        for own in ranks
    ]
    return sent, reply


def drive(answer: ModuleType, inputs: dict[str, Any]) -> list[list[list[Any]]]:
    """By mesh and step: the output, the input's gradient, and the weights after the update."""
    found = []
    for given in inputs["meshes"]:
        mark(f"Mesh{tuple(given['sizes'])}")
        mesh = answer.Mesh(*given["sizes"])
        up, up_bias, down, down_bias = parameters = [
            torch.nn.Parameter(weight.clone()) for weight in given["weights"]
        ]
        steps = []
        for step in range(STEPS):
            x = ask("input").requires_grad_()
            hidden = F.gelu(F.linear(mesh.enter(x), up, up_bias))
            y = mesh.leave(F.linear(hidden, down)) + down_bias
            y.backward(ask("gradient"))
            ask("average")
            # In the last step as model.parameters() is: gone through once
            mesh.average(parameters if step < STEPS - 1 else (p for p in parameters))
            ask("step")
            with torch.no_grad():
                for parameter in parameters:
                    parameter -= RATE * parameter.grad
                    parameter.grad = None
            steps.append([y.detach(), x.grad, [p.detach().clone() for p in parameters]])
        found.append(steps)
    return found


def expect(ranks: list[dict[str, Any]], world_size: int) -> list[list[list[list[Any]]]]:
    """By rank what `drive` returns, from one process with the whole weights and batch."""
    found: list[list[list[list[Any]]]] = [[] for _ in ranks]
    for number, (data, tensor) in enumerate(MESHES[world_size]):
        weights = ranks[0]["whole"][number]
        of_ranks: list[list[list[Any]]] = [[] for _ in ranks]
        for step in range(STEPS):
            weights = {name: w.detach().clone().requires_grad_() for name, w in weights.items()}
            shares = [ranks[d * tensor]["meshes"][number]["steps"][step] for d in range(data)]
            xs = [x.clone().requires_grad_() for x, _ in shares]
            ys = [mlp(weights, x) for x in xs]
            torch.autograd.backward(ys, [gradient for _, gradient in shares])
            weights = {n: (w - RATE * w.grad / data).detach() for n, w in weights.items()}
            for rank, steps in enumerate(of_ranks):
                d, t = divmod(rank, tensor)
                steps.append([ys[d].detach(), xs[d].grad, slice_of(weights, t, tensor)])
        for rank, steps in enumerate(of_ranks):
            found[rank].append(steps)
    return found


# ---- who called what, in which group


def step_calls(rank: RankEvidence, meshes: int) -> list[dict[str, list[Call]]]:
    """For each mesh and step: a rank's calls in `activations`, forward and backward, and in
    `gradients`, by the parent's times."""
    at = {
        phase: [one.at for one in rank.asked if one.request == phase and not one.refused]
        for phase in PHASES
    }
    times = list(zip(*(at[phase] for phase in PHASES), strict=True))[: meshes * STEPS]
    return [
        {
            "activations": [c for c in rank.calls if start <= c.issued <= average],
            "gradients": [c for c in rank.calls if average < c.issued <= over],
        }
        for start, _, average, over in times
    ]


def places(run: Run) -> Iterator[tuple[str, tuple[int, int], int, int, int]]:
    """(beginning of a sentence, mesh, its number, step, rank)."""
    for number, mesh in enumerate(MESHES[run.world_size]):
        for step in range(STEPS):
            for rank in range(run.world_size):
                seen = f"mesh {mesh[0]} × {mesh[1]}, step {step + 1}, rank {rank}"
                yield seen, mesh, number, step, rank


def calls_at(run: Run, number: int, step: int, rank: int, part: str) -> list[Call]:
    """A rank's calls in a step among more than one rank."""
    evidence = run.evidence.ranks[rank]
    found = step_calls(evidence, len(MESHES[run.world_size]))[number * STEPS + step][part]
    return [call for call in found if len(call.group) > 1]


def wrong_group(run: Run, mesh: tuple[int, int], rank: int, calls: list[Call], kind: str) -> str:
    """The hint for the first call that is not in the rank's group of a kind, or ""."""
    mine = groups_of(rank, mesh)
    for call in calls:
        if call.group == mine[kind]:
            continue
        if call.group == tuple(range(run.world_size)):
            return "all_ranks"
        if call.group == mine["data" if kind == "tensor" else "tensor"]:
            return "other_dimension"
        return "numbering"
    return ""


def layer_is_whole(run: Run) -> Problem | None:
    """Whether the first step's outputs and inputs' gradients are those of the unsplit layer."""
    for seen, mesh, number, step, rank in places(run):
        if step:
            continue
        value = run.evidence.values[rank][number][0]
        right = run.expected[rank][number][0]
        for part, (name, hint) in enumerate((("output", "output"), ("input's gradient", "input"))):
            found = difference(value[part], right[part], TOLERANCE)
            if found is None:
                continue
            message = f"{seen}: the {name} {found}"
            if found.expected:
                return Problem(message, "types", found.expected)
            calls = calls_at(run, number, step, rank, "activations")
            if why := wrong_group(run, mesh, rank, calls, "tensor"):
                return Problem(message, why)
            if part and not difference(value[part], mesh[1] * right[part], TOLERANCE):
                return Problem(message, "twice")
            return Problem(message, hint)
    return None


def trains_alike(run: Run) -> Problem | None:
    """Whether after each step a rank has its part of the weights of one process."""
    names = list(shapes("mlp", HIDDEN))
    for seen, mesh, number, step, rank in places(run):
        value = run.evidence.values[rank][number][step][2]
        right = run.expected[rank][number][step][2]
        for name, got, weight in zip(names, value, right, strict=True):
            if not difference(got, weight, TOLERANCE):
                continue
            message = f"{seen}: {name} is not that of one process on the whole batch"
            calls = calls_at(run, number, step, rank, "gradients")
            if why := wrong_group(run, mesh, rank, calls, "data"):
                return Problem(message, why)
            if mesh[0] > 1 and not calls and step < STEPS - 1:
                return Problem(message, "no_average")
            before = run.expected[rank][number][step - 1][2] if step else None
            start = before or run.inputs[rank]["meshes"][number]["weights"]
            old = start[names.index(name)]
            if not difference(got - old, mesh[0] * (weight - old), TOLERANCE):
                return Problem(message, "sum")
            # What is wrong in a layer's input and output is wrong in its weights' gradients
            if problem := layer_is_whole(run):
                return problem
            output, due = (one[rank][number][step][0] for one in (run.values, run.expected))
            if step == STEPS - 1 and not difference(output, due, TOLERANCE):
                return Problem(f"{message}; `parameters` was a generator here", "iterable")
            return Problem(message, "weights")
    return None


def sums_in_tensor_groups(run: Run) -> Problem | None:
    for seen, mesh, number, step, rank in places(run):
        calls = calls_at(run, number, step, rank, "activations")
        mine = groups_of(rank, mesh)["tensor"]
        if why := wrong_group(run, mesh, rank, calls, "tensor"):
            message = f"{seen}: in forward or backward it makes a call outside of its tensor group"
            return Problem(message, why)
        sizes = [call.nbytes for call in calls]
        if sizes != [MESSAGE] * (2 if len(mine) > 1 else 0):
            message = f"{seen}: forward and backward make {len(calls)} calls of {sum(sizes)} bytes"
            return Problem(message, "activations")
    return None


def averages_in_data_groups(run: Run) -> Problem | None:
    for seen, mesh, number, step, rank in places(run):
        calls = calls_at(run, number, step, rank, "gradients")
        mine = groups_of(rank, mesh)["data"]
        if why := wrong_group(run, mesh, rank, calls, "data"):
            message = f"{seen}: average() makes a call outside of its data group"
            return Problem(message, why)
        weights = run.inputs[rank]["meshes"][number]["weights"]
        enough = sum(weight.nbytes for weight in weights) if len(mine) > 1 else 0
        sent = sum(call.nbytes for call in calls)
        if sent != enough:
            hint = "no_average" if not calls else "gradients"
            return Problem(f"{seen}: average() puts in {sent} bytes", hint, str(enough))
    return None


CHECK = Check(
    id="mesh_2d",
    title="Data in one direction, tensors in the other",
    names=("Mesh",),
    to_write="the mesh's groups, and the sums in them",
    allowed=f"{ALL_ELSE}, `torch.autograd.Function` and collectives too",
    not_allowed=(DTENSOR,),
    inputs=inputs,
    expect=expect,
    drive=drive,
    link="10gbit",
    serve=serve,
    claims=(
        Claim("output and gradient of x are the unsplit layer's", 2, layer_is_whole),
        Claim("weights are those of one process on the whole batch", 2, trains_alike),
        Claim(
            "activations are summed in the tensor group alone",
            2,
            sums_in_tensor_groups,
            of_calls=True,
        ),
        Claim(
            "gradients are averaged in the data group alone",
            2,
            averages_in_data_groups,
            of_calls=True,
        ),
    ),
    hints={
        "start": "Write the ranks into a table of `data` rows and `tensor` columns, 0 to 3 for "
        "2 × 2. Who has the same samples as rank 1, and who has the same weights?",
        "types": "enter() and leave() return a tensor of the shape and dtype that they were given.",
        "numbering": "Look at the table: the tensor place changes fastest. In 2 × 2, ranks 0 and 1 "
        "are one row, and have the same samples; ranks 0 and 2 are one column, and have the same "
        "slices.",
        "other_dimension": "That is the other group. Ranks of a row have different slices and the "
        "same samples; ranks of a column have the same slices and different samples. In 2 × 2, "
        "ranks 0 and 1 are a row.",
        "all_ranks": "A sum here is over all ranks: of a call without `group`, or, on a mesh of "
        "one row or one column, of the other one of the two groups. What is added up then: "
        "outputs of other samples, or gradients of other slices? Ranks of a row have the same "
        "samples, ranks of a column the same slices.",
        "output": "Each rank has a part of the sum over the hidden numbers. leave() adds up the "
        "parts in the tensor group.",
        "input": "What is the identity in forward is a sum in backward: x's gradient consists of "
        "parts, one from each rank of the tensor group.",
        "twice": "Behind leave() every rank of the tensor group has the whole gradient already. "
        "Its backward is the identity.",
        "sum": "Each row's gradients are of its own samples. The batch's gradient is their mean "
        "over `data` rows, not their sum.",
        "no_average": "Rows have different samples, and so different gradients. Without an "
        "average the same slices drift apart.",
        "weights": "Is each p.grad replaced by its mean over the data group: of every parameter, "
        "in place?",
        "iterable": "A generator can be gone through once: a second loop over it finds nothing. "
        "What do you keep of it in the first?",
        "activations": "One all-reduce in enter()'s backward, one in leave()'s forward, each as "
        "large as x. On a dimension of one rank there is nothing to send.",
        "gradients": "Every gradient travels once, those of biases too. Within a row, what is "
        "replicated has equal gradients already: nothing to average there.",
        "mismatch": "new_group is for all ranks: every rank makes every group, in the same order, "
        "and keeps those in which it is. A rank that skips a group has other groups than the rest.",
        "limit": "new_group is for all ranks: where some do not call it, or call it for another "
        "group, the others wait. Every rank makes every group, in the same order.",
        "hang": "new_group is for all ranks: every rank makes every group, in the same order, and "
        "keeps the two in which it is.",
        "raised": "Start from the exception. If it is about a "
        "group: a rank that is not in one cannot use it. Keep the group of your own row, and "
        "that of your own column.",
    },
)
