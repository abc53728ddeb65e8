"""Exercise mixed_precision's second part: gradients of a scaled loss in float16, and the steps that
follow from them.

A rank asks the parent for each step's gradients, with its scale of that moment: the parent knows
the scale, multiplies, rounds to float16, and in some steps that overflows. Each step is judged by
itself, from the scale that was asked with and the weights before it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch

from hpml.checks.compare import described, is_number
from hpml.checks.contract import Problem, Run, fault
from hpml.checks.seeds import derived
from hpml.ranks import Reply, Server, ask

STAGE = "float16"
STEPS = 26
START = 2.0**13
LEARNING_RATE, MAX_NORM = 0.5, 0.1
SIZES = {"w": 40, "b": 8}
# Alone, two in a row, and some that come before the scale has grown again. In between are eight
# good steps in a row: the scale grows twice, whether the growth interval is 3 or 4
BAD = (4, 7, 8, 17, 21)
CLOSE = 1e-3  # of a step's length

Weights = dict[str, torch.Tensor]
# (hint, factor, times, half): a step by `factor` times the gradients as they were served, divided
# by the scale so many times; `half`: of gradients that were divided by it in float16
Way = tuple[str, float, int, bool]


def seed_of(play: dict[str, Any]) -> int:
    """What `inputs` are drawn from."""
    return derived(play["seed"], STAGE)


def inputs(seed: int) -> dict[str, Any]:
    """Weights, the growth interval, and each step's true gradients, float32: those of w are too
    small for float16, and some of b's steps are longer than MAX_NORM. In the last step w's is
    about as long as b's: a common norm is of both, and no sum of theirs."""
    draw = torch.Generator().manual_seed(seed)

    def normal(name: str, size: float) -> torch.Tensor:
        return size * torch.randn(SIZES[name], generator=draw)

    steps = []
    for number in range(STEPS):
        long = bool(torch.rand((), generator=draw) < 0.5)
        w_size = 0.03 if number == STEPS - 1 else 5e-7  # the last: then w itself is larger
        step = {"w": normal("w", w_size), "b": normal("b", 0.06 if long else 0.01)}
        if number in BAD:
            name = ("w", "b")[number % 2]
            at = int(torch.randint(0, SIZES[name], (), generator=draw))
            step[name][at] = math.nan if number == BAD[-2] else (-1) ** number * 300.0
        steps.append(step)
    return {
        "weights": {"w": normal("w", 1e-5), "b": normal("b", 1.0)},
        "growth_interval": 3 + seed % 2,
        "steps": steps,
    }


def scaled(gradients: Weights, scale: float) -> Weights:
    """The gradients of `scale` times the loss, as float16 has them."""
    return {name: (each * scale).half() for name, each in gradients.items()}


def serve(ranks: Sequence[dict[str, Any]]) -> tuple[Sequence[dict[str, Any]], Server]:
    """A stage's `serve`: to {"scale": s} the next step's gradients, and {} after the last."""
    at = [0] * len(ranks)

    def reply(rank: int, request: Any) -> list[Reply]:
        scale = request.get("scale") if isinstance(request, dict) else None
        if not is_number(scale) or not math.isfinite(scale) or scale <= 0:
            raise ValueError(f"scale is {described(scale)}: expected a number above 0")
        steps = ranks[rank]["steps"][at[rank] : at[rank] + 1]
        at[rank] += 1
        return [Reply(rank, scaled(steps[0], scale) if steps else {})]

    return [{k: v for k, v in rank.items() if k != "steps"} for rank in ranks], reply


def drive(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """What `step` returned, and the weights after it, for each step."""
    weights = inputs["weights"]
    scaling = answer.LossScale(inputs["scale"], inputs["growth_interval"])
    taken, after = [], []
    while gradients := ask({"scale": float(scaling.scale)}):
        took = scaling.step(weights, gradients, inputs["learning_rate"], inputs["max_norm"])
        taken.append(took if isinstance(took, bool) else str(type(took).__name__))
        after.append({name: each.detach().clone() for name, each in weights.items()})
    return {"taken": taken, "after": after}


@dataclass(frozen=True)
class Step:
    """One step as it was: `scale` when the gradients were asked for, `then` when the next ones
    were; `good_before`: finite steps in a row since the scale last changed."""

    number: int
    scale: float
    then: float
    gradients: Weights
    finite: bool
    good_before: int
    before: Weights
    after: Weights
    taken: Any

    def by(self, way: Way) -> Weights:
        """Where a step of this way would have led."""
        _, factor, times, half = way
        for _ in range(times):
            factor /= self.scale
        served = {n: each / self.scale if half else each for n, each in self.gradients.items()}
        return {name: each - factor * served[name].float() for name, each in self.before.items()}


def steps_of(run: Run) -> list[Step]:
    """Raises ValueError where the rank's evidence is not that of all steps: not judged."""
    evidence, given = run.stages[STAGE].ranks[0], run.inputs[STAGE][0]
    value = evidence.value
    scales = [asked.request["scale"] for asked in evidence.asked if not asked.refused]
    if len(scales) != STEPS + 1 or [len(value[key]) for key in ("taken", "after")] != [STEPS] * 2:
        raise ValueError(f"{len(scales)} requests in {STEPS} steps")
    found, good, before = [], 0, given["weights"]
    for number, true in enumerate(given["steps"]):
        gradients = scaled(true, scales[number])
        finite = all(bool(torch.isfinite(each).all()) for each in gradients.values())
        found.append(
            Step(
                number,
                scales[number],
                scales[number + 1],
                gradients,
                finite,
                good,
                before,
                value["after"][number],
                value["taken"][number],
            )
        )
        good = (good + 1) % given["growth_interval"] if finite else 0
        before = value["after"][number]
    return found


def length(step: Weights, start: Weights) -> dict[str, float]:
    return {name: (each - start[name]).norm().item() for name, each in step.items()}


def same(got: Weights, wanted: Weights, before: Weights) -> bool:
    """Whether each weight is where it should be, within CLOSE of its step's length."""
    far, long = length(got, wanted), length(wanted, before)
    return all(far[name] <= CLOSE * long[name] + 1e-12 for name in far)


def malformed(step: Step) -> Problem | None:
    for name, size in SIZES.items():
        got = step.after.get(name) if isinstance(step.after, dict) else None
        if not isinstance(got, torch.Tensor) or (got.dtype, got.shape) != (torch.float32, (size,)):
            is_now = f"{got.dtype} {tuple(got.shape)}" if isinstance(got, torch.Tensor) else "gone"
            return Problem(f"step {step.number + 1}: the weight {name} is {is_now}", "step")
    return None


def good_steps(run: Run) -> Problem | None:
    if problem := fault(run.stages[STAGE]):
        return problem
    for step, (right, *mistakes) in zip(steps_of(run), run.expected[STAGE], strict=True):
        if problem := malformed(step):
            return problem
        if not step.finite or same(step.after, step.by(right), step.before):
            continue
        if not all(torch.isfinite(each).all() for each in step.before.values()):
            break  # an overflow's step was taken, which is another claim's
        seen = f"step {step.number + 1}, with a scale of {step.scale:g}: "
        if all(torch.equal(step.after[name], step.before[name]) for name in SIZES):
            hint = "copy" if step.taken is True else "skips_good"
            return Problem(f"{seen}all gradients are finite, and no weight has changed", hint)
        explained = (way for way in mistakes if same(step.after, step.by(way), step.before))
        hint = next(explained, ("step",))[0]
        return Problem(f"{seen}the weights are not those of a step of SGD", hint)
    for step in steps_of(run):
        if step.finite and step.taken is not True:
            return Problem(
                f"step {step.number + 1} was taken, and step returned {step.taken}", "returns"
            )
    return None


def overflow(run: Run) -> Problem | None:
    if problem := fault(run.stages[STAGE]):
        return problem
    for step in [step for step in steps_of(run) if not step.finite]:
        if problem := malformed(step):
            return problem
        kind = "NaN" if any(each.isnan().any() for each in step.gradients.values()) else "inf"
        seen = f"step {step.number + 1}, with {kind} among the gradients: "
        if any(not torch.equal(step.after[name], step.before[name]) for name in SIZES):
            return Problem(f"{seen}the weights have changed", "applied")
        if step.then != step.scale / 2:
            text = f"{seen}the scale was multiplied by {step.then / step.scale:g}"
            return Problem(text, "halve", "by 0.5")
        if step.taken is not False:
            return Problem(f"{seen}step returned {step.taken}", "returns")
    return None


def growth(run: Run) -> Problem | None:
    if problem := fault(run.stages[STAGE]):
        return problem
    interval = run.inputs[STAGE][0]["growth_interval"]
    steps = steps_of(run)
    for step in [step for step in steps if step.finite]:
        factor = 2 if step.good_before + 1 == interval else 1
        if step.then == factor * step.scale:
            continue
        never = not any(each.finite and each.then > each.scale for each in steps)
        return Problem(
            f"after step {step.number + 1}, number {step.good_before + 1} of the good steps in a "
            f"row, the scale was multiplied by {step.then / step.scale:g}; growth_interval is "
            f"{interval}",
            "grows" if factor == 2 and never else "in_a_row",
            f"by {factor}",
        )
    return None
