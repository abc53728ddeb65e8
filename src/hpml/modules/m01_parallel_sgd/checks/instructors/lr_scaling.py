"""The plays of lr_scaling: settings, the rates that are right, and those of usual mistakes."""

import math
import random
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from hpml.modules.m01_parallel_sgd.checks._lr_setting import Setting, setting_of

RULES = ("linear", "sqrt")
AFTER = 4  # steps asked for after the warm-up


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
    """Settings: both rules, few ranks and many, one rank, a warm-up of one step, and none.

    `steps` of each are those to ask for, one of them long after the warm-up, in an order of their
    own: a rate is that of a step, whatever was asked for before.
    """
    draw = random.Random(seed)
    few, many = draw.randint(2, 8), draw.randint(40, 300)
    batches = [n for n in (16, 24, 32, 48, 64, 80, 96, 128, 160) if n not in (few, many)]
    # All different, so that no rule can have them
    batch = iter(draw.sample(batches, len(batches)))

    def setting(ranks: int, rule: str, warm_up_steps: int) -> dict[str, Any]:
        rate = draw.uniform(0.01, 0.2)
        of = Setting(rate, next(batch), ranks, rule, warm_up_steps)
        steps = [*range(warm_up_steps + AFTER), draw.randint(100, 10_000)]
        return asdict(of) | {"steps": draw.sample(steps, len(steps))}

    # All different: a ramp in whole tenths is right at all steps of a warm-up of 5 or 10 steps
    long = draw.sample(range(5, 13), 4)
    pairs = [(ranks, rule) for ranks in (few, many) for rule in RULES]
    settings = [setting(*pair, steps) for pair, steps in zip(pairs, long, strict=True)]
    shortest = [setting(many, RULES[0], 1), setting(few, RULES[1], 0)]
    return [[*settings, setting(1, RULES[0], 6), *shortest]]


def expect(inputs: list[list[dict[str, Any]]], world_size: int) -> dict[str, Any]:
    """By setting: the `scaled` rate, those `at` its steps, and the `way` done at each of them, 0 of
    the warm-up's to 1. And (hint, what somebody with this mistake returns) of both functions."""
    settings = [(setting_of(given), given["steps"]) for given in inputs[0]]

    def at(rate: Callable[[int, Setting], float]) -> list[list[float]]:
        return [[rate(step, of) for step in steps] for of, steps in settings]

    return {
        "scaled": [scaled(of) for of, _ in settings],
        "at": at(gradual),
        "way": at(lambda step, of: _ramp(0.0, 1.0, step, of.warm_up_steps)),
        "scaled_mistakes": [
            (hint, [rate(of) for of, _ in settings]) for hint, rate in SCALED.items()
        ],
        "at_mistakes": [(hint, at(rate)) for hint, rate in AT.items()],
    }
