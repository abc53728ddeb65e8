"""Exercise mixed_precision: matrix products in bfloat16, all else in float32; and a loss scale.

`loss(weights, x, y)`, `Trainer(weights, learning_rate)` with `step(x, y)` and `weights`, and
`LossScale(scale, growth_interval)` with `step(...)` and `scale`. The points rest on numbers: what
comes of bfloat16 products is 1 to 4 % from what comes of float32 ones, and right answers are within
0.04 % of each other; what is right is in the package `instructors`. Which operator ran in which
dtype is the rank's own record, and chooses a hint where the numbers are wrong.
"""

import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch

from hpml.answer.rules import ReadyMade
from hpml.checks.compare import described, is_number, named
from hpml.checks.contract import Check, Claim, Problem, Run, Stage
from hpml.checks.kits.drawn import Drawn
from hpml.checks.kits.ready_made import ALL_ELSE
from hpml.modules.m02_hardware.checks import _scaled_gradients as scaling
from hpml.modules.m02_hardware.checks._parity_picture import parity_picture
from hpml.modules.m02_hardware.checks._two_precisions import (
    CLOSE,
    LEARNING_RATE,
    SAMPLED,
    STEPS,
    apart,
    given,
    off_grid,
    sums,
)
from hpml.ranks import Reply, Server, ask

PLAYS = Drawn(__package__, "mixed_precision")
STAGE = "bfloat16"
PARITY = 0.05  # of the loss: bfloat16 products make 0.01, and weights in bfloat16 0.6 and more
STEP_CLOSE = 5e-3  # of a step's length, which float32 weights have to 1e-4
KEPT = (1, STEPS - 1, STEPS)  # steps after which weights are compared
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "mv", "dot", "linear")
REDUCTIONS = ("native_layer_norm", "_log_softmax", "_softmax", "nll_loss_forward", "var_mean")
AUTOMATIC = ReadyMade(
    "`torch.autocast` and `GradScaler`",
    (
        "torch.amp.autocast_mode.autocast",
        "torch.amp.grad_scaler.GradScaler",
        "torch.set_autocast_enabled",
        "torch.ops.aten._amp_update_scale_",
        "torch.ops.aten._amp_foreach_non_finite_check_and_unscale_",
    ),
    keys=("AutocastCPU",),
)


def inputs(seed: int, world_size: int) -> dict[str, list[dict[str, Any]]]:
    """By stage, for the only rank: what is drawn from a play's seed; see `given`, `scaling`."""
    play = PLAYS.inputs(seed, world_size)
    second = scaling.inputs(scaling.seed_of(play)) | {
        "scale": scaling.START,
        "learning_rate": scaling.LEARNING_RATE,
        "max_norm": scaling.MAX_NORM,
    }
    return {STAGE: [given(play) | {"play": play}], scaling.STAGE: [second]}


def expect(inputs: dict[str, list[dict[str, Any]]], world_size: int) -> Any:
    return PLAYS.expect(inputs[STAGE][0]["play"], world_size)


def serve(ranks: Sequence[dict[str, Any]]) -> tuple[Sequence[dict[str, Any]], Server]:
    """A stage's `serve`: the next batch, one at a time."""
    at = [0] * len(ranks)

    def reply(rank: int, request: Any) -> list[Reply]:
        batches = ranks[rank]["batches"]
        if request != "batch" or at[rank] == len(batches):
            raise ValueError(f"there is no {str(request)[:40]!r} now")
        at[rank] += 1
        return [Reply(rank, batches[at[rank] - 1])]

    lean = [{"weights": rank["weights"], "learning_rate": LEARNING_RATE} for rank in ranks]
    return lean, reply


def drive(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """Losses and gradients of some batches, with the dtypes of the first one's operators, and then
    losses and weights of a training, with the gradients of its last step by the answer's loss."""
    from torch.utils._python_dispatch import TorchDispatchMode

    operators: dict[str, list[str]] = {}

    class Recording(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            given = [a for a in args if isinstance(a, torch.Tensor) and a.is_floating_point()]
            if given:
                dtypes = operators.setdefault(function.overloadpacket.__name__, [])
                if (dtype := str(given[0].dtype).removeprefix("torch.")) not in dtypes:
                    dtypes.append(dtype)
            return function(*args, **(kwargs or {}))

    def by_loss(weights: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> list[Any]:
        leaves = {k: v.detach().clone().requires_grad_() for k, v in weights.items()}
        value = answer.loss(leaves, x, y)
        if isinstance(value, torch.Tensor):
            value.backward()
        return [value, {name: leaf.grad for name, leaf in leaves.items()}]

    sampled = []
    for _ in range(SAMPLED):
        x, y = ask("batch")
        with Recording():
            sampled.append(by_loss(inputs["weights"], x, y))

    trainer = answer.Trainer({k: v.clone() for k, v in inputs["weights"].items()}, LEARNING_RATE)
    losses, after = [], {}
    for step in range(1, STEPS + 1):
        x, y = ask("batch")
        losses.append(float(trainer.step(x, y)))
        if step in KEPT:
            after[str(step)] = {k: v.detach().clone() for k, v in trainer.weights.items()}
    kept = after[str(STEPS - 1)]
    odd = [k for k, v in inputs["weights"].items() if k not in kept or kept[k].shape != v.shape]
    last = {} if odd else by_loss({k: kept[k].float() for k in inputs["weights"]}, x, y)[1]
    return {
        **{"sampled": sampled, "operators": operators, "losses": losses},
        **{"after": after, "last": last},
    }


def what_is_computed(run: Run) -> Problem | None:
    """Loss and gradients of each sampled batch, held against those in mixed precision."""
    value = run.stages[STAGE].values[0]
    given = run.inputs[STAGE][0]
    for number, (loss, due) in enumerate(run.expected["sampled"]):
        got, theirs = value["sampled"][number]
        if not isinstance(got, torch.Tensor) or got.numel() != 1:
            return Problem(f"loss returned {described(got)}", "returns_loss", "a float32 scalar")
        for name, right in given["weights"].items():
            mine = theirs[name]
            if not isinstance(mine, torch.Tensor):
                return Problem(f"the loss has no gradient with respect to {name}", "no_gradient")
            if (mine.shape, mine.dtype) != (right.shape, right.dtype):
                raise ValueError(f"{name}'s gradient is another tensor's")  # not judged
        if got.dtype != torch.float32:
            return Problem(f"the loss is {named(got.dtype)}", "reductions", "float32")
        far = apart(sums(theirs, given["play"]), due)
        off = abs(got.item() - loss)
        if far <= CLOSE and off <= CLOSE * abs(loss):
            continue
        seen = (
            f"batch {number + 1}: the gradients are {100 * far:.2g} % from those of bfloat16 "
            f"products with all else in float32, and the loss differs by {off:.2g}"
        )
        products = [off_grid(theirs[name]) for name in ("w1", "w2")]
        if max(products) > 0.01:
            odd = recorded(value, PRODUCTS)
            hint = "float16" if odd.endswith("took float16") else "products"
            return Problem(f"{seen}{odd}", hint)
        if odd := recorded(value, PRODUCTS):
            return Problem(f"{seen}{odd}", "emulated")
        if far < 0.02 or off_grid(theirs["gain"]) < 0.01:
            return Problem(f"{seen}{recorded(value, REDUCTIONS)}", "reductions")
        return Problem(seen, "network")
    odd = wrong_dtypes(value, PRODUCTS, "bfloat16")
    return Problem(f"by the rank's own record, {odd}", "emulated") if odd else None


def recorded(value: Any, operators: Sequence[str]) -> str:
    """'; by the rank's own record, mm took float32', of operators that it has."""
    odd = wrong_dtypes(value, operators, "bfloat16" if operators is PRODUCTS else "float32")
    return f"; by the rank's own record, {odd}" if odd else ""


def wrong_dtypes(value: Any, operators: Sequence[str], wanted: str) -> str:
    """'mm took float32': the first of the operators that took another dtype than `wanted`."""
    record = value["operators"] if isinstance(value["operators"], dict) else {}
    for name in operators:
        for dtype in record.get(name, []):
            if dtype != wanted:
                return f"{name} took {dtype}"
    return ""


def keeps_accuracy(run: Run) -> Problem | None:
    value, expected = run.stages[STAGE].values[0], run.expected
    losses = value["losses"]
    if len(losses) != STEPS or not all(map(is_number, losses)):
        raise ValueError(f"{len(losses)} losses")  # not judged
    before = run.inputs[STAGE][0]["weights"]
    for step in KEPT:
        for name, right in before.items():
            got = value["after"][str(step)].get(name)
            if not isinstance(got, torch.Tensor) or got.shape != right.shape:
                return Problem(f"after step {step}, weights has no {name} as it was", "master")
            if got.dtype != torch.float32:
                seen = f"after step {step}, the weight {name} is {named(got.dtype)}"
                return Problem(seen, "master", "float32")
    for number, (got, right) in enumerate(zip(losses, expected["losses"], strict=True), 1):
        if abs(got - right) <= PARITY:
            continue
        seen = f"step {number} of {STEPS}: the loss is {abs(got - right):.2g} from that in float32"
        last = value["after"][str(STEPS)]
        if off_grid(last["w2"]) < 0.01:
            return Problem(f"{seen}; all weights are bfloat16 numbers", "master")
        if all(abs(a - b) <= PARITY for a, b in zip(losses, expected["stale"], strict=True)):
            return Problem(f"{seen}; it is that of the weights at the start", "stale")
        return what_is_computed(run) or Problem(seen, "training")
    return None


def trains_in_bfloat16(run: Run) -> Problem | None:
    """The first step by what is known of it; the last by the answer's own loss, which has been
    compared: the weights before it are nobody else's."""
    if problem := keeps_accuracy(run):
        return problem
    given, value = run.inputs[STAGE][0], run.stages[STAGE].values[0]
    after = {"0": given["weights"], **value["after"]}
    for step in (1, STEPS):
        before, got = after[str(step - 1)], after[str(step)]
        moved = {k: (before[k] - got[k]) / LEARNING_RATE for k in given["weights"]}
        due = run.expected["first"] if step == 1 else last_by_loss(run)
        far = apart(sums(moved, given["play"]), due) if due else math.nan
        if not far <= STEP_CLOSE:
            seen = (
                f"step {step} is {100 * far:.2g} % from a step with products in bfloat16, as a "
                "share of its length"
            )
            # A loss that is not as it should be explains its steps
            return what_is_computed(run) or Problem(seen, "float32_steps")
    return None


def last_by_loss(run: Run) -> dict[str, list[float]] | None:
    """The sums of the last step's gradients; None where not all weights have one."""
    given, last = run.inputs[STAGE][0], run.stages[STAGE].values[0]["last"]
    whole = all(
        isinstance(last.get(name), torch.Tensor) and last[name].shape == each.shape
        for name, each in given["weights"].items()
    )
    return sums(last, given["play"]) if whole else None


CHECK = Check(
    id="mixed_precision",
    title="Half the bits, the same accuracy",
    names=("loss", "Trainer", "LossScale"),
    picture=parity_picture(drive, serve),
    worlds=(1,),
    process_group=False,
    to_write="the loss, the step and the loss scale",
    allowed=ALL_ELSE,
    not_allowed=(AUTOMATIC,),
    inputs=inputs,
    expect=expect,
    stages=(
        Stage(STAGE, drive, serve=serve),
        Stage(scaling.STAGE, scaling.drive, dies=True, serve=scaling.serve),
    ),
    claims=(
        Claim("products are in bfloat16, and all else is in float32", 3, what_is_computed),
        Claim("30 steps have the losses of a training in float32", 2, keeps_accuracy),
        Claim("each of its steps is one with products in bfloat16", 1, trains_in_bfloat16),
        Claim("a step in float16 is of the unscaled gradients, clipped", 2, scaling.good_steps),
        Claim("a step with inf or NaN is not taken, and halves the scale", 1, scaling.overflow),
        Claim("good steps in a row double the scale", 1, scaling.growth),
    ),
    hints={
        "start": "Which numbers of a training step are added up many at a time, or differ little "
        "from each other? They need float32. Begin with a function of two matrices: cast both to "
        "bfloat16, multiply, cast the product back to float32. Autograd then does the same in "
        "backward.",
        "returns_loss": "loss returns one number as a tensor: the mean cross-entropy over the "
        "batch, with its graph.",
        "no_gradient": "Somewhere the way back to the weights is cut: a tensor made by detach, "
        "item, or under no_grad. Casting with .to keeps the graph.",
        "products": "Both operands of both products are cast: activations and weights. If one is "
        "float32, PyTorch raises or computes in float32.",
        "float16": "This product took float16. It has 16 bits too, and fewer of them for the "
        "exponent: what is above 65504 is inf there. bfloat16 reaches as far as float32. Which of "
        "the two do you cast to?",
        "reductions": "The layer norm, the softmax and the loss add up many numbers. bfloat16 has "
        "8 bits for them: 256 + 1 is 256 there. Cast each product back to float32 before anything "
        "else is done with it.",
        "emulated": "This product was computed in float32, of numbers with bfloat16's rounding: "
        "then it is no faster. Cast the operands, and let matmul see bfloat16.",
        "network": "Compare your network with the text's, line by line: the layer norm has a gain "
        "and no shift, ReLU comes after it, and the bias is added to the second product.",
        "master": "bfloat16 numbers near 0.3 are 0.002 apart, and a step is smaller than half of "
        "that: it is rounded away. Keep the weights in float32, and cast a copy in each step.",
        "stale": "These losses are those of the first weights. What was cast once does not follow "
        "the weights: cast anew in each step.",
        "training": "Plain SGD: each weight becomes itself minus learning_rate times its gradient, "
        "in float32, from gradients of this step alone. The loss that step returns is that of the "
        "same weights as its gradients: it is computed before the update.",
        "float32_steps": "Trainer.step should call your loss, with the float32 weights: the casts "
        "are in there.",
        "step": "Undo the scale in float32, clip all gradients together by their common norm, then "
        "subtract learning_rate times the result.",
        "unscale": "These gradients are those of scale times the loss. What has the scale to do "
        "with the step?",
        "lengthened": "This step is as long as max_norm, and its gradients are shorter. Were they "
        "unscaled before the norm was taken? Clipping makes no step longer: the factor is 1 where "
        "the norm is below max_norm.",
        "clip_first": "The norm was taken of scaled gradients, so that nearly every step was "
        "clipped to nothing. Unscale first.",
        "clip": "The step is longer than max_norm allows: one factor for all gradients, "
        "max_norm / norm where the norm over all of them is larger than max_norm.",
        "norm": "Norms of single gradients do not add up to the norm of all: that is the root of "
        "the sum of their squares, as if all were one vector.",
        "half": "Divided in float16, small gradients are zero again: that is what the scale was "
        "for. Cast to float32 first.",
        "skips_good": "All gradients of this step were finite, and it was skipped. Look at the "
        "test for inf and NaN.",
        "copy": "step returned True, and the weights that it was given are as before. Was a copy "
        "changed? Change the tensors in `weights`, or put new ones into that same dict.",
        "applied": "One inf in one gradient: no weight may change in this step, those with finite "
        "gradients neither. inf - inf and 0 · inf are NaN, and NaN never leaves a weight again. "
        "Look at all gradients before you change the first weight.",
        "halve": "An overflow means that the scale is too large: half of it from the next step on.",
        "grows": "The scale never becomes larger. After each overflow it is halved; without growth "
        "it ends where small gradients are zero.",
        "in_a_row": "Count the good steps since the scale last changed. An overflow sets the count "
        "to 0, and so does growth.",
        "returns": "step returns True where it has changed the weights, False where it has not.",
        "raised": "Start from the exception: it names a line of your answer. matmul takes two "
        "operands of one dtype. A tensor that is not in the graph was made by detach, item, or "
        "under no_grad; casting with .to keeps the graph.",
    },
)
