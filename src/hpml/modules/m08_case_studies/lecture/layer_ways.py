"""Each layer split in a way of its own: what a step then sends, and three searches for the least.

A layer is split by images ("data": whole weights, an all-reduce of gradients) or by its outputs
("tensor": a part of the weights on each rank, all images in, part of the channels out). Where a
layer needs other parts than the one before has made, activations travel, and their gradients back.

Tofu (Wang et al. 2019, arXiv:1807.08887) finds such splits by dynamic programming, FlexFlow (Jia
et al. 2018, arXiv:1807.05358) by a random walk (Markov chain Monte Carlo). Both split every
operator in more ways, and FlexFlow prices time; here are two ways, and bytes. A layer's activations
are counted before pooling, and what the loss needs is left out.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from hpml.predict.model_layers import Model

WAYS = ("data", "tensor")


@dataclass(frozen=True)
class Chain:
    """A model's layers one after the other, on `ranks` with a `batch` of all ranks together."""

    model: Model
    ranks: int
    batch: int

    def inside(self, layer: int, way: str) -> float:
        """Bytes that a rank sends for the layer itself: an all-reduce of its gradients, or none."""
        if way == "tensor":
            return 0.0
        return 2 * (self.ranks - 1) / self.ranks * self.model.layers[layer].parameter_bytes

    def between(self, layer: int, before: str, way: str) -> float:
        """Bytes that a rank sends to bring this layer's inputs where they are needed, and their
        gradients back; 0 for the first layer, as each rank loads what it needs."""
        if layer == 0 or before == way == "data":
            return 0.0
        activations = self.batch * self.model.layers[layer - 1].activation_bytes
        # To tensor: an all-gather, and a reduce-scatter back. From tensor to data: each rank keeps
        # its images of its channels, and exchanges the rest (all-to-all), there and back.
        p = self.ranks
        return 2 * (p - 1) / p * activations * (1 if way == "tensor" else 1 / p)

    def sent(self, ways: Sequence[str]) -> float:
        """Bytes that a rank sends in a step, with a way for each layer."""
        total, before = 0.0, "data"
        for layer, way in enumerate(ways):
            total += self.inside(layer, way) + self.between(layer, before, way)
            before = way
        return total


@dataclass(frozen=True)
class Searched:
    """The best that a search has found, its bytes, and how many prices it asked for."""

    ways: tuple[str, ...]
    nbytes: float
    priced: int


def try_all(chain: Chain) -> Searched:
    """Every combination: 2 to the number of layers."""
    every = product(WAYS, repeat=len(chain.model.layers))
    nbytes, ways = min((chain.sent(ways), ways) for ways in every)
    return Searched(ways, nbytes, len(WAYS) ** len(chain.model.layers))


def dynamic_programming(chain: Chain) -> Searched:
    """The least, layer by layer: for each way of a layer, only the best way to get there counts."""
    best = {way: (chain.inside(0, way), (way,)) for way in WAYS}
    priced = len(WAYS)
    for layer in range(1, len(chain.model.layers)):
        best = {
            way: min(
                (
                    nbytes + chain.between(layer, ways[-1], way) + chain.inside(layer, way),
                    (*ways, way),
                )
                for nbytes, ways in best.values()
            )
            for way in WAYS
        }
        priced += len(WAYS) ** 2
    nbytes, ways = min(best.values())
    return Searched(ways, nbytes, priced)


def random_walk(chain: Chain, steps: int = 2000, seed: int = 0) -> Searched:
    """Metropolis: change one layer's way; keep it if it sends less, else with a probability.

    The probability is exp(-20 · what it sends more / what data parallelism sends).
    """
    draw = random.Random(seed)
    now = ["data"] * len(chain.model.layers)
    sent = chain.sent(now)
    whole = sent or 1.0  # a network that sends nothing cannot send less
    best = Searched(tuple(now), sent, 1)
    for step in range(1, steps):
        layer = draw.randrange(len(now))
        new = [*now]
        new[layer] = "tensor" if now[layer] == "data" else "data"
        nbytes = chain.sent(new)
        if draw.random() < math.exp(min(0.0, 20 * (sent - nbytes) / whole)):
            now, sent = new, nbytes
        if nbytes < best.nbytes:
            best = Searched(tuple(new), nbytes, step + 1)
    return best


def linear_alone(chain: Chain, planned: Searched, *others: Searched) -> bool:
    """Whether all searches agree, and split by tensor some fully connected layers and no other."""
    ways = zip(chain.model.layers, planned.ways, strict=True)
    split = [layer.name for layer, way in ways if way == "tensor"]
    agree = all(math.isclose(planned.nbytes, other.nbytes) for other in others)
    return agree and bool(split) and all(name.startswith("fc") for name in split)
