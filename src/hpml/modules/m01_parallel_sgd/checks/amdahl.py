"""Exercise amdahl: speed-up for a fixed problem, and for one that grows with the ranks.

`strong_speedup(serial, ranks)`, `weak_speedup(serial, ranks)`, `efficiency(speedup, ranks)` and
`serial_fraction(speedup, ranks)`, all of plain numbers.
"""

import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from hpml.checks.compare import described, is_number
from hpml.checks.contract import Check, Claim, Problem, Run
from hpml.checks.kits.drawn import Drawn
from hpml.checks.kits.ready_made import ANYTHING
from hpml.ranks import mark

TOLERANCE = 1e-9  # of the value; the formulas have a few operations
PLAYS = Drawn(__package__, "amdahl")
NAMES = ("strong_speedup", "weak_speedup", "efficiency", "serial_fraction")

# Hints for what no usual mistake explains; "start" is about speed-ups
OTHERWISE = {"efficiency": "of_all", "serial_fraction": "no_serial"}


def drive(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for name, calls in inputs.items():
        found[name] = []
        for value, ranks in calls:
            mark(f"{name}({value!r}, {ranks!r})")
            found[name].append(getattr(answer, name)(value, ranks))
    return found


def close(got: float, expected: float) -> bool:
    return math.isclose(got, expected, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def misconception(
    name: str, got: Sequence[float], mistakes: Sequence[tuple[str, Sequence[float]]]
) -> str:
    """The hint for the first usual mistake that explains all returned values."""
    for hint, wrong in mistakes:
        if all(close(*pair) for pair in zip(got, wrong, strict=True)):
            return hint
    return OTHERWISE.get(name, "start")


def holds(name: str) -> Callable[[Run], Problem | None]:
    """The judge of the function `name`."""

    def judge(run: Run) -> Problem | None:
        calls, got, due = run.inputs[0][name], run.values[0][name], run.expected[name]
        for (value, ranks), said in zip(calls, got, strict=True):
            if not is_number(said):
                message = f"{name}({value:.4g}, {ranks}) is {described(said)}, not a float"
                return Problem(message, "types")
        for (value, ranks), said, right in zip(calls, got, due["right"], strict=True):
            if not close(said, right):
                message = f"{name}({value:.4g}, {ranks}) is {said:.6g}"
                return Problem(message, misconception(name, got, due["mistakes"]), f"{right:.6g}")
        return None

    return judge


CHECK = Check(
    id="amdahl",
    title="How much faster can it get at all?",
    names=NAMES,
    to_write="the four formulas",
    allowed=ANYTHING,
    worlds=(1,),
    process_group=False,
    inputs=PLAYS.inputs,
    drive=drive,
    expect=PLAYS.expect,
    claims=(
        Claim("the speed-up of a problem that stays as it is", 2, holds("strong_speedup")),
        Claim("the speed-up of a problem that grows with the ranks", 1, holds("weak_speedup")),
        Claim("efficiency is what each rank contributes", 1, holds("efficiency")),
        Claim("a measured speed-up tells the serial fraction", 1, holds("serial_fraction")),
    ),
    hints={
        "start": "Which part of the time gets shorter with more ranks, and which does not? Write "
        "down the time of one rank and the time of p ranks, each as serial part plus parallel "
        "part, and divide.",
        "swapped": "The serial fraction is the part that stays as it is, however many ranks there "
        "are. Which of your two terms shrinks (or grows) with p? Try s = 0, where nothing is "
        "serial: p ranks are p times as fast.",
        "grows": "That is the speed-up of a problem that grows with the ranks, and it has no "
        "limit. Here the problem stays: with s = 0.1, can any number of ranks be more than 10 "
        "times as fast?",
        "stays": "That is Amdahl's law, for a problem of one size. Here p ranks do p times as much "
        "of the parallel work in the same time; how long would one rank take for all of it?",
        "seconds": "That is the time that p ranks take, if one rank takes 1. A speed-up is the "
        "time of one rank divided by it.",
        "rounded": "The formula is right, and its values are rounded to whole numbers. A speed-up "
        "need not be one: return it as it is.",
        "per_rank": "That is the efficiency: the speed-up per rank. The speed-up itself is p times "
        "as much.",
        "percent": "Efficiency is a fraction: 1 where p ranks are p times as fast.",
        "of_all": "A speed-up of 50 is excellent with 64 ranks and poor with 1024. Efficiency is "
        "the speed-up per rank.",
        "inverse": "The other way round: half the speed-up is half the efficiency.",
        "no_serial": "Put a speed-up of 1 into it: nothing was gained, so everything was serial, "
        "and the fraction should be 1. Solve Amdahl's law for s; (1-s)/p holds an s, too.",
        "weak_estimate": "That is Gustafson's law solved for s, for a problem that grew with the "
        "ranks. The speed-up was measured on a problem that stayed: solve Amdahl's law.",
        "parallel_share": "That is the parallel fraction. The two add up to 1.",
        "clamped": "A negative result is news: more than p times as fast on p ranks (each rank's "
        "part may have begun to fit into its cache, say). So is one above 1: p ranks were slower "
        "than one. Return what the formula gives.",
        "types": "Return a plain float: a number, no tensor and no text.",
        "raised": "Every call has ranks >= 1 and a serial fraction from 0 to 1, both ends "
        "included; serial_fraction is asked for 2 ranks and more.",
    },
)
