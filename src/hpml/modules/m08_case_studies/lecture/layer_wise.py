"""Gradients sent layer by layer during backward, or all at once after it: what stays exposed.

S-Caffe sends each layer's gradients while backward goes on (Awan et al. 2017, S-Caffe: co-designing
MPI runtimes and Caffe for scalable deep learning on modern GPU clusters, abstract).
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hpml.predict.collectives import Cost
from hpml.predict.model_layers import Layer, Model
from hpml.predict.scaling import (
    BACKWARD,
    BUCKET,
    Level,
    Network,
    Prediction,
    Training,
    exposed_seconds,
    predict,
)

WAYS: Mapping[str, float] = {"all at once": math.inf, "layer by layer": 1.0}  # bytes in a message
BUCKETS = "buckets of 25 MiB"  # PyTorch's


def exposed(counts: Sequence[int], layer: float, ranks: int, rate: float) -> dict[str, float]:
    """Seconds that are left when backward has ended, by way, as the predictor has them.

    `counts` are the float32 gradients of each layer, in the order of backward; each layer takes
    `layer` seconds of it. A ring of `ranks` over links of `rate` bit/s, latencies left out.
    """
    layers = tuple(Layer(str(k), 1.0, 4 * count, 0) for k, count in enumerate(reversed(counts)))
    step = len(counts) * layer / BACKWARD
    network = Network((Level(None, Cost(0.0, 8 / rate)),))
    return {
        way: exposed_seconds(
            Training(Model("layers", layers), 1 / step, 1, network, bucket_bytes=size), ranks
        )
        for way, size in WAYS.items()
    }


class Hidden(NamedTuple):
    """The share of the waiting that layer by layer hides, by network, measured and predicted."""

    held: bool
    measured: Mapping[str, float]
    predicted: Mapping[str, float]


def hidden(
    measured: Mapping[tuple[str, str], float], predicted: Mapping[tuple[str, str], float]
) -> Hidden:
    """Of exposed seconds by network and way: where the bytes sit decides.

    The networks are the keys' first parts: the last one has its bytes in the first layer.
    """
    whole, single = WAYS
    *others, first = names = list(dict.fromkeys(name for name, _ in measured))
    seen, by_model = (
        {name: 1 - seconds[name, single] / seconds[name, whole] for name in names}
        for seconds in (measured, predicted)
    )
    return Hidden(min(seen[name] for name in others) > 0.5 > seen[first], seen, by_model)


class LastLayers(NamedTuple):
    """The shares of the bytes and of the operations that the last layers have."""

    held: bool
    of_bytes: float
    of_flop: float


def last_layers(model: Model, count: int) -> LastLayers:
    """Have the last `count` layers nearly all bytes, and hardly any operations?"""
    last = model.layers[-count:]
    of_bytes = sum(layer.parameter_bytes for layer in last) / model.parameter_bytes
    of_flop = sum(layer.flop for layer in last) / model.flop
    return LastLayers(of_bytes > 0.8 and of_flop < 0.1, of_bytes, of_flop)


def on_a_cluster(
    model: Model, images_per_s: float, batch: int, network: Network, ranks: int
) -> dict[tuple[str, str], Prediction]:
    """What is predicted of `ranks` ranks, by all-reduce (flat ring, two levels) and by way."""
    ways = {**WAYS, BUCKETS: BUCKET}
    return {
        (algorithm, way): predict(
            Training(model, images_per_s, batch, network, algorithm, size), ranks
        )
        for algorithm in ("ring", "hierarchical")
        for way, size in ways.items()
    }


def table(predictions: Mapping[tuple[str, str], Prediction]) -> str:
    """A line for each all-reduce and way: what is exposed of a step, and the efficiency."""
    lines = [f"{'all-reduce':14}{'messages':20}{'exposed':>12}{'efficiency':>12}"]
    for (algorithm, way), one in predictions.items():
        exposed = f"{1e3 * one.step.exposed:.1f} ms"
        lines.append(f"{algorithm:14}{way:20}{exposed:>12}{one.efficiency:>12.1%}")
    return "\n".join(lines)


class Efficiencies(NamedTuple):
    """By way: of a flat ring, and of two levels."""

    held: bool
    flat: Mapping[str, float]
    levels: Mapping[str, float]


def efficiencies(predictions: Mapping[tuple[str, str], Prediction]) -> Efficiencies:
    """Layer by layer on a flat ring pays a latency for each layer and rank; two levels do not."""
    whole, single = WAYS
    flat, levels = (
        {way: predictions[algorithm, way].efficiency for way in (*WAYS, BUCKETS)}
        for algorithm in ("ring", "hierarchical")
    )
    held = flat[whole] < flat[single] < flat[BUCKETS] < levels[single]
    return Efficiencies(held, flat, levels)
