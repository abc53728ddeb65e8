"""Exercise lr_scaling: the learning rate for N ranks, and its warm-up.

`scaled_rate(base_rate, batch_per_rank, ranks, rule)` and `rate_at(step, base_rate, batch_per_rank,
ranks, rule, warm_up_steps)`. `batch_per_rank` is the same for every number of ranks. It is an
argument because programs have it; no rule needs it, and to scale by it is a usual mistake.
What is right is in the package `instructors`.
"""

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

from hpml.checks.compare import described, is_number
from hpml.checks.contract import Check, Claim, Problem, Run
from hpml.checks.kits.drawn import Drawn
from hpml.checks.kits.ready_made import ANYTHING
from hpml.modules.m01_parallel_sgd.checks._lr_setting import Setting, setting_of
from hpml.ranks import mark

PLAYS = Drawn(__package__, "lr_scaling")
TOLERANCE = 1e-9  # of the rate; the formulas have a few operations


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


def close(got: float, expected: float) -> bool:
    return math.isclose(got, expected, rel_tol=TOLERANCE)


def unusable(what: str, said: Any) -> Problem | None:
    if not is_number(said):
        return Problem(f"{what} is {described(said)}, not a float", "types")
    return None


def scaled_by(rule: str) -> Callable[[Run], Problem | None]:
    """The judge of the scaled rates of one rule."""

    def judge(run: Run) -> Problem | None:
        settings, due = settings_of(run), run.expected
        told = [said["scaled"] for said in run.values[0]]
        mine = [place for place, of in enumerate(settings) if of.rule == rule]
        for place in mine:
            if problem := unusable(f"scaled_rate with {settings[place]}", told[place]):
                return problem
        for place in mine:
            if close(told[place], due["scaled"][place]):
                continue
            hint = next(
                (
                    name
                    for name, wrong in due["scaled_mistakes"]
                    if all(close(told[place], wrong[place]) for place in mine)
                ),
                "start",
            )
            message = f"with {settings[place]}, the scaled rate is {told[place]:.6g}"
            return Problem(message, hint, f"{due['scaled'][place]:.6g}")
        return None

    return judge


def settings_of(run: Run) -> list[Setting]:
    return [setting_of(given) for given in run.inputs[0]]


def at_steps(which: Callable[[int, Setting], bool]) -> Callable[[Run], Problem | None]:
    """The judge of the rates at the steps for which `which(step, setting)` is true."""

    def judge(run: Run) -> Problem | None:
        follows = of_scaled_rate(run)
        for given, said, right in zip(
            run.inputs[0], run.values[0], run.expected["at"], strict=True
        ):
            of = setting_of(given)
            # From step 0 on
            for step, got, expected in sorted(
                zip(given["steps"], said["at"], right, strict=True), key=lambda row: row[0]
            ):
                if not which(step, of):
                    continue
                if problem := unusable(f"rate_at({step}, ...) with {of}", got):
                    return problem
                if not close(got, expected):
                    message = f"with {of}, the rate at step {step} is {got:.6g}"
                    if follows is not None:
                        message += ", as it follows from the scaled rate"
                    hint = misconception(run) if follows is None else follows
                    return Problem(message, hint, f"{expected:.6g}")
        return None

    return judge


def of_scaled_rate(run: Run) -> str | None:
    """The hint of a wrong scaled rate, if all rates at all steps only follow from it."""
    first = scaled_by("sqrt")(run) or scaled_by("linear")(run)
    told = [said["scaled"] for said in run.values[0]]
    if first is None or not all(map(is_number, told)):
        return None
    follow = [
        [of.base_rate + (scaled - of.base_rate) * way for way in ways]
        for of, scaled, ways in zip(settings_of(run), told, run.expected["way"], strict=True)
    ]
    return first.hint if are_told(run, follow) else None


def misconception(run: Run) -> str:
    """The hint for the first usual mistake that explains all rates at all steps."""
    mistakes = run.expected["at_mistakes"]
    return next((hint for hint, wrong in mistakes if are_told(run, wrong)), "ramp")


def are_told(run: Run, rates: list[list[float]]) -> bool:
    """Whether these are the rates that came back, by setting and step."""
    return all(
        is_number(got) and close(got, rate)
        for said, row in zip(run.values[0], rates, strict=True)
        for got, rate in zip(said["at"], row, strict=True)
    )


CHECK = Check(
    id="lr_scaling",
    title="A learning rate for N ranks, and the way there",
    names=("scaled_rate", "rate_at"),
    to_write="the two rules and the warm-up",
    allowed=ANYTHING,
    worlds=(1,),
    process_group=False,
    inputs=PLAYS.inputs,
    drive=drive,
    expect=PLAYS.expect,
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
        "whole-number division that loses the fraction? With one warm-up step, step 0 has "
        "base_rate and step 1 the scaled rate.",
        "types": "Return a plain float: a number, no tensor and no text.",
        "raised": "Start from the exception: it names a line of your answer. If it divides by "
        "zero: warm_up_steps may be 0, and then there is no warm-up.",
    },
)
