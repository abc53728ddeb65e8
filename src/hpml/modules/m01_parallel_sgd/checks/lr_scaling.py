"""Exercise lr_scaling: the learning rate for N ranks, and its warm-up.

`scaled_rate(base_rate, batch_per_rank, ranks, rule)` and `rate_at(step, base_rate, batch_per_rank,
ranks, rule, warm_up_steps)`. `batch_per_rank` is the same for every number of ranks. It is an
argument because programs have it; no rule needs it, and to scale by it is a usual mistake.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from types import ModuleType
from typing import Any

from hpml.checks.compare import described, is_number
from hpml.checks.contract import Check, Claim, Problem, Run
from hpml.checks.kits.ready_made import ANYTHING
from hpml.ranks import mark

TOLERANCE = 1e-9  # of the rate; the formulas have a few operations
RULES = ("linear", "sqrt")
AFTER = 4  # steps asked for after the warm-up


@dataclass(frozen=True)
class Setting:
    """One training run. `rule` is "linear" or "sqrt"."""

    base_rate: float
    batch_per_rank: int
    ranks: int
    rule: str
    warm_up_steps: int

    def __str__(self) -> str:
        return (
            f"base_rate {self.base_rate:.4g}, {self.ranks} ranks of {self.batch_per_rank}, "
            f"{self.rule}, {self.warm_up_steps} warm-up steps"
        )


def scaled(of: Setting) -> float:
    """For k ranks: k η by the linear rule (Goyal et al. 2017, Accurate, large minibatch SGD,
    section 2.1), √k η by the square root rule (Hoffer et al. 2017, Train longer, generalize better;
    Krizhevsky 2014, One weird trick for parallelizing convolutional neural networks, page 5)."""
    return of.base_rate * (of.ranks if of.rule == "linear" else math.sqrt(of.ranks))


def gradual(step: int, of: Setting) -> float:
    """From η to the scaled rate, by a constant amount at each step (Goyal et al., section 2.2)."""
    if step >= of.warm_up_steps:
        return scaled(of)
    return of.base_rate + (scaled(of) - of.base_rate) * step / of.warm_up_steps


def _ramp(begin: float, end: float, step: float, steps: int) -> float:
    return begin + (end - begin) * min(step / steps, 1.0) if steps else end


# Usual mistakes, by the key of their hint: in the scaled rate, then in the rate at a step
SCALED: dict[str, Callable[[Setting], float]] = {
    "batch": lambda of: scaled(of) * of.batch_per_rank,
    "batch_only": lambda of: of.base_rate * of.batch_per_rank,
    "of_256": lambda of: scaled(of) * of.batch_per_rank / 256,
    "root_of_all": lambda of: math.sqrt(of.base_rate * of.ranks),
    "linear_always": lambda of: of.base_rate * of.ranks,
    "divided": lambda of: of.base_rate**2 / scaled(of),
}
AT: dict[str, Callable[[int, Setting], float]] = {
    "no_warm_up": lambda step, of: scaled(of),
    "from_zero": lambda step, of: _ramp(0.0, scaled(of), step, of.warm_up_steps),
    "one_early": lambda step, of: _ramp(of.base_rate, scaled(of), step + 1, of.warm_up_steps),
    "one_late": lambda step, of: _ramp(
        of.base_rate, scaled(of), max(step - 1, 0), of.warm_up_steps
    ),
    "from_zero_early": lambda step, of: _ramp(0.0, scaled(of), step + 1, of.warm_up_steps),
    "constant": lambda step, of: of.base_rate if step < of.warm_up_steps else scaled(of),
    "factor": lambda step, of: (
        of.base_rate * (scaled(of) / of.base_rate) ** _ramp(0.0, 1.0, step, of.warm_up_steps)
    ),
    "goes_on": lambda step, of: (
        of.base_rate + (scaled(of) - of.base_rate) * step / max(of.warm_up_steps, 1)
    ),
    "to_linear": lambda step, of: _ramp(
        of.base_rate, of.base_rate * of.ranks, step, of.warm_up_steps
    ),
}


def inputs(seed: int, world_size: int) -> list[list[dict[str, Any]]]:
    """Settings: both rules, few ranks and many, one rank, and no warm-up. `steps` of each are those
    to ask for, in an order of their own: a rate is that of a step, whatever was asked for before.
    """
    draw = random.Random(seed)
    few, many = draw.randint(2, 8), draw.randint(40, 300)
    batches = [n for n in (24, 32, 48, 64, 96, 128) if n not in (few, many)]

    def setting(ranks: int, rule: str, warm_up_steps: int) -> dict[str, Any]:
        rate = draw.uniform(0.01, 0.2)
        of = Setting(rate, draw.choice(batches), ranks, rule, warm_up_steps)
        steps = range(warm_up_steps + AFTER)
        return asdict(of) | {"steps": draw.sample(steps, len(steps))}

    # All different: a ramp in whole tenths is right at all steps of a warm-up of 5 or 10 steps
    long = draw.sample(range(5, 13), 4)
    pairs = [(ranks, rule) for ranks in (few, many) for rule in RULES]
    settings = [setting(*pair, steps) for pair, steps in zip(pairs, long, strict=True)]
    return [[*settings, setting(1, RULES[0], 6), setting(few, RULES[1], 0)]]


def drive(answer: ModuleType, inputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each setting: the scaled rate, and the rate `at` each of its steps, in their order."""
    found = []
    for of in inputs:
        given = (of["base_rate"], of["batch_per_rank"], of["ranks"], of["rule"])
        mark(f"scaled_rate{given!r}")
        scaled = answer.scaled_rate(*given)
        mark(f"rate_at(step, {repr(given)[1:-1]}, {of['warm_up_steps']!r})")
        at = [answer.rate_at(step, *given, of["warm_up_steps"]) for step in of["steps"]]
        found.append({"scaled": scaled, "at": at})
    return found


def expect(inputs: list[list[dict[str, Any]]], world_size: int) -> list[dict[str, Any]]:
    return [
        {"scaled": scaled(of), "at": [gradual(step, of) for step in given["steps"]]}
        for of, given in zip(map(setting_of, inputs[0]), inputs[0], strict=True)
    ]


def setting_of(given: dict[str, Any]) -> Setting:
    """Without the steps."""
    return Setting(**{name: value for name, value in given.items() if name != "steps"})


def close(got: float, expected: float) -> bool:
    return math.isclose(got, expected, rel_tol=TOLERANCE)


def unusable(what: str, said: Any) -> Problem | None:
    if not is_number(said):
        return Problem(f"{what} is {described(said)}, not a float", "types")
    return None


def scaled_by(rule: str) -> Callable[[Run], Problem | None]:
    """The judge of the scaled rates of one rule."""

    def judge(run: Run) -> Problem | None:
        rows = list(zip(settings_of(run), run.values[0], run.expected, strict=True))
        rows = [row for row in rows if row[0].rule == rule]
        for of, said, _ in rows:
            if problem := unusable(f"scaled_rate with {of}", said["scaled"]):
                return problem
        for of, said, right in rows:
            if close(said["scaled"], right["scaled"]):
                continue
            hint = next(
                (
                    name
                    for name, formula in SCALED.items()
                    if all(close(got["scaled"], formula(of)) for of, got, _ in rows)
                ),
                "start",
            )
            message = f"with {of}, the scaled rate is {said['scaled']:.6g}"
            return Problem(message, hint, f"{right['scaled']:.6g}")
        return None

    return judge


def settings_of(run: Run) -> Sequence[Setting]:
    return [setting_of(given) for given in run.inputs[0]]


def at_each_step(run: Run) -> list[tuple[Setting, list[tuple[int, Any, float]]]]:
    """For each setting: each step from 0 on, what was said for it and what is right."""
    rows = zip(run.inputs[0], run.values[0], run.expected, strict=True)
    return [
        (
            setting_of(given),
            sorted(
                zip(given["steps"], said["at"], right["at"], strict=True), key=lambda row: row[0]
            ),
        )
        for given, said, right in rows
    ]


def at_steps(which: Callable[[int, Setting], bool]) -> Callable[[Run], Problem | None]:
    """The judge of the rates at the steps for which `which(step, setting)` is true."""

    def judge(run: Run) -> Problem | None:
        rows = at_each_step(run)
        follows = of_scaled_rate(run)
        for of, steps in rows:
            for step, got, expected in steps:
                if not which(step, of):
                    continue
                if problem := unusable(f"rate_at({step}, ...) with {of}", got):
                    return problem
                if not close(got, expected):
                    message = f"with {of}, the rate at step {step} is {got:.6g}"
                    if follows is not None:
                        message += ", as it follows from the scaled rate"
                    hint = misconception(rows) if follows is None else follows
                    return Problem(message, hint, f"{expected:.6g}")
        return None

    return judge


def of_scaled_rate(run: Run) -> str | None:
    """The hint of a wrong scaled rate, if all rates at all steps only follow from it."""
    first = scaled_by("sqrt")(run) or scaled_by("linear")(run)
    if first is None or first.hint == "types":
        return None
    for (of, steps), said in zip(at_each_step(run), run.values[0], strict=True):
        for step, got, _ in steps:
            right = _ramp(of.base_rate, said["scaled"], step, of.warm_up_steps)
            if not is_number(got) or not close(got, right):
                return None
    return first.hint


def misconception(rows: Sequence[tuple[Setting, Sequence[tuple[int, Any, float]]]]) -> str:
    """The hint for the first usual mistake that explains all rates at all steps."""
    for hint, formula in AT.items():
        if all(
            is_number(got) and close(got, formula(step, of))
            for of, steps in rows
            for step, got, _ in steps
        ):
            return hint
    return "ramp"


CHECK = Check(
    id="lr_scaling",
    title="A learning rate for N ranks, and the way there",
    names=("scaled_rate", "rate_at"),
    to_write="the two rules and the warm-up",
    allowed=ANYTHING,
    worlds=(1,),
    process_group=False,
    inputs=inputs,
    drive=drive,
    expect=expect,
    claims=(
        Claim("the linear rule: k ranks, k times the rate", 2, scaled_by("linear")),
        Claim("the square-root rule: k ranks, √k times the rate", 2, scaled_by("sqrt")),
        Claim(
            "the warm-up starts at the rate of one rank",
            2,
            at_steps(lambda step, of: step == 0 < of.warm_up_steps),
        ),
        Claim(
            "each step of the warm-up adds the same",
            2,
            at_steps(lambda step, of: 0 < step < of.warm_up_steps),
        ),
        Claim(
            "after the warm-up the scaled rate stays",
            2,
            at_steps(lambda step, of: step >= of.warm_up_steps),
        ),
    ),
    hints={
        "start": "Each of N ranks brings a batch as large as one rank had alone: the global "
        "batch is N times as large. By how much does each rule raise the rate then?",
        "batch": "What counts is by how much the batch has grown, not how large it is. base_rate "
        "was found with batches of batch_per_rank; k ranks bring k of them.",
        "batch_only": "The rate was found with this very batch size: nothing to be scaled for "
        "that. What has grown is the number of ranks that bring one.",
        "of_256": "0.1 per 256 samples is the rate of one paper's network (Goyal et al. 2017). "
        "Here base_rate belongs to batch_per_rank, whatever that is, and the rest is the number of "
        "ranks.",
        "root_of_all": "The root is taken of the factor by which the batch has grown, and not of "
        "the rate: √k · base_rate.",
        "linear_always": "That is the linear rule. By the square-root rule 4 ranks train with "
        "twice the rate.",
        "divided": "A larger batch has a less noisy gradient, so it can go further in one step: "
        "the rate grows.",
        "no_warm_up": "That is the scaled rate from the first step on. The first steps are when a "
        "large rate does most harm: start with what one rank would take, and get there in "
        "warm_up_steps steps.",
        "from_zero": "That starts at 0: the first step changes nothing at all. The gradual warm-up "
        "starts from the rate that is known to work for one rank.",
        "from_zero_early": "That starts below the rate that is known to work for one rank, at a "
        "share of the scaled rate. Step 0 has base_rate, and step warm_up_steps is the first that "
        "has the scaled rate.",
        "one_early": "One step too early: step 0 has base_rate, nothing added yet, and step "
        "warm_up_steps is the first that has the scaled rate.",
        "one_late": "One step too late: step 1 has the first increment already, and step "
        "warm_up_steps the scaled rate.",
        "constant": "A jump at the end of a constant warm-up is what the gradual one is there to "
        "avoid: add the same amount at each step.",
        "factor": "That multiplies by the same factor at each step. Here each step adds the same "
        "amount.",
        "goes_on": "The rate goes on rising after the warm-up. From step warm_up_steps on, it "
        "stays.",
        "to_linear": "The warm-up ends at the linear rule's rate, whichever rule was asked for. It "
        "should end where scaled_rate says.",
        "ramp": "Three values fix it: step 0 has base_rate, step warm_up_steps and all later ones "
        "have the scaled rate, and between them each step adds the same amount. Is it a "
        "whole-number division that loses the fraction?",
        "types": "Return a plain float: a number, no tensor and no text.",
        "raised": "Start from the exception: it names a line of your answer. If it divides by "
        "zero: warm_up_steps may be 0, and then there is no warm-up.",
    },
)
