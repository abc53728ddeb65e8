"""What is seen of frameworks that let communication in at different places.

The training is `small_training`'s.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torch import Tensor

from hpml.modules.m04_frameworks.lecture.small_training import in_one_process, loss_of

EQUAL = 1e-12  # float64, after a few dozen steps


def gap(on_ranks: Sequence[Tensor], steps: int) -> float:
    """The largest difference of any rank's weights from those of one process with all batches."""
    expected = in_one_process(len(on_ranks), steps)
    return max((one - expected).abs().max().item() for one in on_ranks)


class Places(NamedTuple):
    """Where the nodes `mean_of_ranks` stand in a graph of backward; how many nodes compute, and how
    many of these are behind the first one. Held if each gradient has one, and some are behind."""

    held: bool
    places: list[int]
    computing: int
    behind: int


def all_reduces(nodes: Sequence[str]) -> Places:
    """Of a graph of backward of `small_training.network`, by its nodes' names."""
    places = [place for place, name in enumerate(nodes) if name.startswith("mean_of_ranks")]
    compute = [name.startswith(("mm", "sum", "tanh_backward")) for name in nodes]
    behind = sum(compute[places[0] :]) if places else 0
    return Places(len(places) == 4 and behind > 0, places, sum(compute), behind)


class Losses(NamedTuple):
    """The loss after blocks of steps, by block momentum, and where the ranks agree in each step.
    Held if block momentum is better than plain averages, and the ranks' weights are alike."""

    held: bool
    by_momentum: Mapping[float, float]
    each_step: float


def after_blocks(on_ranks: Mapping[float, Sequence[Tensor]], steps: int) -> Losses:
    """From the ranks' weights by block momentum; 0 is plain averages."""
    ranks = len(next(iter(on_ranks.values())))
    each_step = loss_of(in_one_process(ranks, steps))
    losses = {momentum: loss_of(weights[0]) for momentum, weights in on_ranks.items()}
    alike = all(bool((one == each[0]).all()) for each in on_ranks.values() for one in each)
    held = alike and each_step < min(losses.values()) < losses[0.0] / 1.5
    return Losses(held, losses, each_step)
