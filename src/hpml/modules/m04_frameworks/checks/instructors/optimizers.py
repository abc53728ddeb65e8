"""The plays of optimizers: cases, the right steps of each rule, and those of usual mistakes."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hpml.checks.seeds import derived
from hpml.modules.m04_frameworks.checks._optimizer_drive import CASES, RULES, STEPS
from hpml.modules.m04_frameworks.checks._optimizer_picture import valley_of_the_lecture
from hpml.modules.m04_frameworks.checks.instructors._optimizer_steps import (
    OF_GAPS,
    OF_MEMORY,
    OF_RATES,
    OF_THE_STEP,
    STEP,
    Case,
    played,
)

# Bits after the point, in a recording: more than the check compares
BITS = {"float32": 22, "float64": 34}
BITS_OF_MISTAKES = 16


def inputs(seed: int, world_size: int) -> list[dict[str, Any]]:
    """For the only rank: by rule and name its cases. Gradients are the same for each rule."""
    drawn = {name: _drawn(derived(seed, name), name) for name in CASES}
    return [
        {
            rule: {
                name: case | {"options": _options(seed, rule, name)} for name, case in drawn.items()
            }
            for rule in RULES
        }
    ]


def _options(seed: int, rule: str, name: str) -> dict[str, Any]:
    draw = random.Random(derived(seed, f"{rule} {name}"))
    decay = 0.0 if name in ("plain", "reused") else draw.uniform(0.3, 0.6)
    if rule == "NesterovSGD":
        return {"momentum": draw.uniform(0.7, 0.9), "weight_decay": decay}
    betas = [draw.uniform(0.7, 0.9), draw.uniform(0.95, 0.99)]
    return {"betas": betas, "eps": draw.uniform(0.02, 0.05), "weight_decay": decay}


def _drawn(seed: int, name: str) -> Case:
    draw = random.Random(seed)
    twin = draw.randint(3, 5)
    shapes = [
        (draw.randint(2, 4), draw.randint(1, 3)),
        (),
        (twin,),
        (twin,),
        (2, 1, draw.randint(2, 3)),
    ]
    dtypes = ["float32", "float64", "float32", "float32", "float64"]
    if name == "reused":
        dtypes = ["float64"] * len(shapes)

    def drawn(number: int, size: float = 1.0) -> np.ndarray:
        values = [draw.gauss(0.0, size) for _ in range(int(np.prod(shapes[number])))]
        return np.array(values).reshape(shapes[number])

    def plain(values: np.ndarray) -> Any:
        """None of them 0: that is a case of its own."""
        return rounded(np.where(np.abs(values) < 2.0**-10, 2.0**-10, values), 10)

    parameters = [plain(drawn(number)) for number in range(len(shapes))]
    parameters[3] = parameters[2]  # as equal as can be, and another parameter
    sizes = [draw.choice((0.1, 0.5, 2.0)) for _ in shapes]
    means = [drawn(number, 0.5) for number in range(len(shapes))]  # so that steps add up
    gradients: list[list[Any]] = [
        [plain(means[n] * sizes[n] + drawn(n, sizes[n])) for n in range(len(shapes))]
        for _ in range(STEPS)
    ]
    if name == "gaps":
        late, early, never = draw.sample(range(len(shapes)), 3)
        begin, end = draw.randint(4, 6), draw.randint(12, 15)
        for step in range(STEPS):
            if step < begin:
                gradients[step][late] = None
            if begin <= step < end:
                gradients[step][early] = None
            gradients[step][never] = None
        zero = draw.randint(7, 10)  # a gradient of zeros is not None: the step goes on
        for number in {*range(len(shapes))} - {late, early, never}:
            gradients[zero][number] = (0 * drawn(number)).tolist()
    rate = draw.uniform(0.04, 0.08)
    rates = [rate] * STEPS
    if name == "rates":
        first, second = draw.randint(5, 8), draw.randint(11, 15)
        rates = [rate * (0.3 if first <= k < second else 1.7 if k >= second else 1.0)
                 for k in range(STEPS)]  # fmt: skip
    return {
        "parameters": parameters,
        "dtypes": dtypes,
        "gradients": gradients,
        "rates": rates,
        "reused": name == "reused",
    }


def rounded(values: np.ndarray, bits: int | np.ndarray) -> Any:
    """With so many bits after the point, as plain numbers: most of their bytes are 0."""
    return (np.round(values * 2.0**bits) / 2.0**bits).tolist()


def expect(inputs: list[dict[str, Any]], world_size: int) -> dict[str, Any]:
    """By rule: by case the parameters after each step; and by claim, hints with the parameters of
    its cases, in a row, after the last step of somebody with this mistake."""
    (given,) = inputs
    return {
        "right": {rule: {name: _right(rule, case) for name, case in some.items()}
                  for rule, some in given.items()},
        "mistakes": {
            rule: {
                "steps": _made(rule, [some["plain"], some["decay"]], OF_THE_STEP[rule]),
                "gaps": _made(rule, [some["gaps"]], OF_GAPS),
                "rates": _made(rule, [some["rates"]], OF_RATES),
                "memory": _made(rule, [some["reused"]], OF_MEMORY),
            }
            for rule, some in given.items()
        },
    }  # fmt: skip


def _right(rule: str, case: Case) -> list[list[float]]:
    sizes = [np.size(each) for each in case["parameters"]]
    return rounded(played(rule, case), np.repeat([BITS[name] for name in case["dtypes"]], sizes))


def _made(
    rule: str, cases: Sequence[Case], mistakes: Mapping[str, str]
) -> list[tuple[str, list[float]]]:
    def last(mistake: str) -> list[float]:
        ends = [played(rule, case, mistake)[-1] for case in cases]
        return rounded(np.concatenate(ends), BITS_OF_MISTAKES)

    right = last("")
    found = [(hint, last(mistake)) for mistake, hint in mistakes.items()]
    return [(hint, wrong) for hint, wrong in found if wrong != right]


def pictured() -> dict[str, list[list[float]]]:
    """By rule: the two weights after each right step down the lecture's valley."""
    given = valley_of_the_lecture()
    lowest, steep = np.array(given["lowest"]), np.array(given["steep"])
    found = {}
    for rule, (rate, options) in given["rules"].items():
        weights, state, points = np.array(given["start"]), {}, []
        for _ in range(given["steps"]):
            weights = STEP[rule](weights, steep * (weights - lowest), state, rate, options, "")
            points.append(weights.tolist())
        found[rule] = points
    return found
