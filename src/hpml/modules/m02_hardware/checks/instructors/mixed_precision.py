"""The plays of mixed_precision: what is drawn, its gradients, a training, and steps in float16."""

import itertools
import math
from typing import Any

import torch

from hpml.checks.seeds import derived
from hpml.modules.m02_hardware.checks import _scaled_gradients as scaling
from hpml.modules.m02_hardware.checks._two_precisions import (
    CLOSE,
    SAMPLED,
    apart,
    given,
    sums,
)
from hpml.modules.m02_hardware.checks.instructors._trainings import (
    Batch,
    Product,
    in_bfloat16,
    losses_in_bfloat16,
    trained,
    with_gradients,
)


def inputs(seed: int, world_size: int) -> dict[str, Any]:
    """The seed that all else is drawn from: one of `settled` gradients."""
    plays = ({"seed": derived(seed, f"play {number}")} for number in itertools.count())
    return next(play for play in plays if settled(play))


def settled(play: dict[str, Any]) -> bool:
    """Whether gradients are close to those of sums in another order, which other machines have."""
    drawn = given(play)

    def found(batch: Batch, product: Product) -> dict[str, list[float]]:
        return sums(with_gradients(drawn["weights"], batch, product=product)[1], play)

    return all(
        apart(found(batch, in_another_order), found(batch, in_bfloat16)) < CLOSE / 2
        for batch in drawn["batches"][: SAMPLED + 1]
    )


def in_another_order(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """As `in_bfloat16`, with sums in float64."""
    return (a.bfloat16().double() @ b.bfloat16().double()).bfloat16().float()


def expect(inputs: dict[str, Any], world_size: int) -> dict[str, Any]:
    """The `sampled` losses and sums of gradients in mixed precision, and those of the `first` step;
    the `losses` of a training in float32, and those of the weights at its start, which were never
    cast again. Of each step in `float16`: see `steps`."""
    drawn = given(inputs)
    first, after = drawn["batches"][:SAMPLED], drawn["batches"][SAMPLED:]
    weights = drawn["weights"]
    mixed = [with_gradients(weights, b, product=in_bfloat16) for b in [*first, after[0]]]
    found = [(loss.item(), sums(gradients, inputs)) for loss, gradients in mixed]
    return {
        "sampled": found[:SAMPLED],
        "first": found[SAMPLED][1],
        "losses": trained(weights, after)[0],
        "stale": [with_gradients(weights, batch)[0].item() for batch in after],
        "float16": steps(scaling.inputs(scaling.seed_of(inputs))),
    }


def steps(drawn: dict[str, Any]) -> list[list[scaling.Way]]:
    """Of each step the right `Way`, then those of usual mistakes, by the key of their hint."""
    found = []
    for true in drawn["steps"]:
        # As rounded to float16, which is the same rounding at every scale
        served = torch.cat([*scaling.scaled(true, scaling.START).values()]).double()
        norm = (served / scaling.START).norm().item()
        if not math.isfinite(norm):  # an overflow, unless an answer has halved its scale often
            norm = torch.cat([*true.values()]).norm().item()
        rate, clipped = scaling.LEARNING_RATE, scaling.LEARNING_RATE * scaling.MAX_NORM / norm
        right = min(rate, clipped)
        added = sum(each.double().norm().item() for each in true.values())
        found.append(
            [
                ("", right, 1, False),
                ("lengthened", clipped, 1, False),
                ("clip_first", clipped, 2, False),
                ("clip", rate, 1, False),
                ("norm", scaling.LEARNING_RATE * scaling.MAX_NORM / added, 1, False),
                ("half", right, 0, True),
                ("unscale", rate, 0, False),
            ]
        )
    return found


def pictured() -> dict[str, Any]:
    """A play, and the losses of its training in float32 and with weights in bfloat16."""
    play = inputs(derived(7, "mixed_precision"), 1)
    drawn = given(play)
    batches = drawn["batches"][SAMPLED:]
    return play | {
        "float32": trained(drawn["weights"], batches)[0],
        "bfloat16": losses_in_bfloat16(drawn["weights"], batches),
    }
