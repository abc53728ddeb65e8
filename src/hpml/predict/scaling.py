"""Images/s of data parallel training on N ranks, from a model, a processor and a network.

A step of synchronous training has four parts that add up:

    compute      what one rank alone takes: its batch over its images/s
    exposed      communication that is left when backward has ended
    straggling   waiting for the slowest of N ranks: σ · compute · E[largest of N normal numbers]
    input        what the loader takes longer than all of that: it works beside the step

Backward is 2/3 of compute, shared out over the layers by FLOP, last layer first. A bucket leaves
when its last gradient is there and the bucket before it has arrived, so buckets queue, and the last
one, which ends with the first layer, never hides behind anything (Li et al. 2020, PyTorch
Distributed, section 3.2.3).

Two constants are on no data sheet, and `fit` (scaling_fit.py) finds them from small runs: the
share of the network's nominal rate that is reached, and σ. Why these two: the first is all that can
be wrong with the exposed part, the second with the rest, and they grow differently with N. The form
was fixed by that reasoning and not changed since; its author had read the published tables of 2017,
so tables that came later are the better judges.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import NormalDist
from typing import TYPE_CHECKING

from hpml.predict.collectives import Cost, all_reduce_seconds

if TYPE_CHECKING:
    from hpml.predict.model_layers import Model

MIB = 2**20
BUCKET = 25 * MIB  # bytes: the default of PyTorch's DDP
BACKWARD = 2 / 3  # of compute: a gradient of the weights and one of the inputs, beside one forward
ALGORITHMS = ("ring", "double-tree", "hierarchical", "naive")


@dataclass(frozen=True)
class Level:
    """One kind of link, and how many ranks it joins: 8 in a node; None: any number.

    `cost` is that of a message between two ranks, or from a node to another: the ranks of a node
    share its link.
    """

    ranks: int | None
    cost: Cost


@dataclass(frozen=True)
class Network:
    """Levels, the innermost first: each joins more ranks than the one before.

    Raises ValueError for levels in another order, and for none.
    """

    levels: tuple[Level, ...]

    def __post_init__(self):
        sizes = [level.ranks if level.ranks is not None else math.inf for level in self.levels]
        if not sizes or sizes != sorted(set(sizes)) or sizes[0] < 1:
            raise ValueError(f"levels of {sizes} ranks: give each more ranks than the one before")

    def groups(self, ranks: int) -> list[int]:
        """How many ranks, nodes, … there are: in all, then after joining at each level. Ends in 1.

        Raises ValueError for more ranks than the network joins.
        """
        most = self.levels[-1].ranks
        if ranks < 1 or (most is not None and ranks > most):
            raise ValueError(f"{ranks} ranks on a network that joins 1 to {most or 'any number'}")
        joined = [1 if one.ranks is None else -(-ranks // one.ranks) for one in self.levels]
        return [ranks, *joined]


@dataclass(frozen=True)
class Input:
    """Images/s of loading: of each rank's own loader, and of what all ranks share (storage).

    Raises ValueError for values that are not above 0.
    """

    each: float = math.inf
    shared: float = math.inf

    def __post_init__(self):
        for name, rate in vars(self).items():
            if not rate > 0:
                raise ValueError(f"input, {name}, is {rate} images/s: must be above 0")


@dataclass(frozen=True)
class Training:
    """What runs on how many ranks soever: weak scaling, `batch` images on each rank.

    `images_per_s` is that of one rank alone with this batch, and nothing to send. `gradient_share`
    is the bytes that are sent over those of the float32 gradients: 0.5 in float16. With `overlap`
    off, all buckets wait for the end of backward. With `global_batch` each rank has its share of
    that instead of `batch`, and is as fast with any share, as with micro-batches of one size.
    Raises ValueError for what cannot be.
    """

    model: "Model"
    images_per_s: float
    batch: float
    network: Network
    algorithm: str = "ring"
    bucket_bytes: float = BUCKET
    overlap: bool = True
    gradient_share: float = 1.0
    input: Input = Input()
    global_batch: float | None = None

    def __post_init__(self):
        if self.algorithm not in ALGORITHMS:
            raise ValueError(f"all-reduce {self.algorithm!r} is not one of {', '.join(ALGORITHMS)}")
        positive = ("images_per_s", "batch", "bucket_bytes", "gradient_share")
        for name in positive:
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}: must be above 0")

    @property
    def compute(self) -> float:
        """Seconds of a step on one rank."""
        return self.batch / self.images_per_s

    def on(self, ranks: int) -> "Training":
        """With the batch that each of `ranks` has."""
        shared = self.global_batch
        return self if shared is None else replace(self, batch=shared / ranks, global_batch=None)


@dataclass(frozen=True)
class Constants:
    """What has to be fitted. `rate`: the share that is reached of the nominal rate of the network's
    outermost level, 0 to 1; `straggling`: the standard deviation of a rank's step, over compute."""

    rate: float = 1.0
    straggling: float = 0.0


@dataclass(frozen=True)
class Step:
    """The parts of one step, in seconds."""

    compute: float
    exposed: float
    straggling: float
    input: float

    @property
    def seconds(self) -> float:
        return self.compute + self.exposed + self.straggling + self.input

    @property
    def shares(self) -> dict[str, float]:
        """Each part over the whole."""
        return {name: part / self.seconds for name, part in vars(self).items()}


@dataclass(frozen=True)
class Prediction:
    """A step on `ranks` ranks, and what it makes of `batch` images on each."""

    ranks: int
    batch: float
    step: Step

    @property
    def images_per_s(self) -> float:
        return self.ranks * self.batch / self.step.seconds

    @property
    def efficiency(self) -> float:
        """Images/s over those of as many ranks that need not wait for anything: 0 to 1."""
        return self.step.compute / self.step.seconds


def predict(training: Training, ranks: int, constants: Constants = Constants()) -> Prediction:
    """The step of `training` on `ranks` ranks. Raises ValueError for more than can be joined."""
    training = training.on(ranks)
    exposed = exposed_seconds(training, ranks, constants.rate)
    straggling = straggling_seconds(training, ranks, constants.straggling)
    rest = training.compute + exposed + straggling
    waiting = max(0.0, loading_seconds(training, ranks) - rest)
    return Prediction(ranks, training.batch, Step(training.compute, exposed, straggling, waiting))


def straggling_seconds(training: Training, ranks: int, deviation: float) -> float:
    """Seconds until the slowest of `ranks` has come, whose steps have this standard deviation over
    compute, and are normally distributed."""
    return deviation * training.compute * expected_largest(ranks)


def loading_seconds(training: Training, ranks: int) -> float:
    """Seconds in which the images of a step come in."""
    return training.batch * max(1 / training.input.each, ranks / training.input.shared)


def exposed_seconds(training: Training, ranks: int, rate: float = 1.0) -> float:
    """Seconds from the end of backward until the last bucket has arrived; 0 on one rank."""
    if ranks == 1:
        return 0.0
    free = 0.0  # when the network is, in seconds since the step began
    for ready, nbytes in buckets(training):
        begins = max(free, ready if training.overlap else training.compute)
        free = begins + bucket_seconds(training, nbytes, ranks, rate)
    return max(0.0, free - training.compute)


def buckets(training: Training) -> list[tuple[float, float]]:
    """(seconds since the step began when it can leave, bytes to send) of each bucket, in order.

    Filled from the last layer to the first as long as they fit; a layer that is larger than a
    bucket travels alone.
    """
    flop = sum(layer.flop for layer in training.model.layers)
    at = (1 - BACKWARD) * training.compute
    filled: list[tuple[float, float]] = []
    for layer in reversed(training.model.layers):
        at += BACKWARD * training.compute * layer.flop / flop
        nbytes = layer.parameter_bytes * training.gradient_share
        if not nbytes:
            continue  # a layer without parameters computes and sends nothing
        if filled and filled[-1][1] + nbytes <= training.bucket_bytes:
            filled[-1] = (at, filled[-1][1] + nbytes)
        else:
            filled.append((at, nbytes))
    return filled


def bucket_seconds(training: Training, nbytes: float, ranks: int, rate: float = 1.0) -> float:
    """Seconds of an all-reduce over all levels, the outermost at `rate` of its nominal rate.

    Hierarchical: a ring at each level in turn, with the bytes that the level below has left to each
    rank; its ranks share the link. A ring over all ranks goes once around every node, so that one
    rank in each crosses the link at a time: its bytes are held up by the slowest link on the way,
    and its messages pay each link's own α, as in NCCL's model of itself (NVIDIA, nccl,
    src/graph/tuning.cc: nInterSteps). Double tree: the bytes of the ring, in small pieces; but one
    after the other there are only the messages along a chain in the node, and up and down a tree of
    nodes (Sanders et al. 2009, Two-tree algorithms; NVIDIA, nccl, the same file). Naive: all that
    is sent passes through one rank's link, which is also what parameter servers in one place come
    to.
    """
    levels = training.network.levels
    groups = training.network.groups(ranks)
    costs = [level.cost for level in levels]
    costs[-1] = Cost(costs[-1].alpha, costs[-1].beta / rate, costs[-1].gamma)
    if training.algorithm == "ring":
        crossings = [units - joined for units, joined in pairwise(groups)]
        return _all_bytes_once_around(nbytes, groups, costs, [2 * count for count in crossings])
    if training.algorithm == "double-tree":
        return _all_bytes_once_around(nbytes, groups, costs, _tree_messages(groups))
    if training.algorithm == "naive":
        crossed = groups.index(1) - 1  # the outermost level that there are ranks for
        return all_reduce_seconds("naive", nbytes, ranks, costs[crossed])
    seconds, inside, slowest = 0.0, 1, 0.0
    for units, joined, level, cost in zip(groups, groups[1:], levels, costs, strict=False):
        together = min(-(-units // joined), units)  # units in one group of this level
        if together > 1:
            slowest = max(slowest, inside * cost.beta)
            shared = Cost(cost.alpha, slowest, cost.gamma)
            seconds += all_reduce_seconds("ring", nbytes / inside, together, shared)
        inside = min(level.ranks or ranks, ranks)
    return seconds


def _all_bytes_once_around(
    nbytes: float, groups: Sequence[int], costs: Sequence[Cost], messages: Sequence[int]
) -> float:
    """2 (p-1)/p of the bytes over the slowest link that is crossed, and so many messages, one after
    the other, at each level."""
    crossed = [cost for n, m, cost in zip(groups, groups[1:], costs, strict=False) if n > m]
    slowest = Cost(0.0, max(c.beta for c in crossed), max(c.gamma for c in crossed))
    latency = sum(count * cost.alpha for count, cost in zip(messages, costs, strict=True))
    return latency + all_reduce_seconds("ring", nbytes, groups[0], slowest)


def _tree_messages(groups: Sequence[int]) -> list[int]:
    """By level: there and back along a chain inside, and on a tree over what is outermost."""
    outermost = groups.index(1) - 1
    inside = [2 * (-(-n // m) - 1) for n, m in pairwise(groups[: outermost + 1])]
    levels = 2 * (groups[outermost] - 1).bit_length()
    return [*inside, levels, *[0] * (len(groups) - outermost - 2)]


def expected_largest(count: int) -> float:
    """The expected largest of `count` standard normal numbers: 0 for one, 1.4 for 8, 2.8 for 256.

    Blom's approximation, Φ⁻¹((n − 0.375) / (n + 0.25)) (Blom 1958, Statistical estimates and
    transformed beta-variables).
    """
    return NormalDist().inv_cdf((count - 0.375) / (count + 0.25))
