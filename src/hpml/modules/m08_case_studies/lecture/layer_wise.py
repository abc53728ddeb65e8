"""Gradients sent layer by layer during backward, or all at once after it: what stays exposed.

S-Caffe sends each layer's gradients while backward goes on (Awan et al. 2017, S-Caffe: co-designing
MPI runtimes and Caffe for scalable deep learning on modern GPU clusters, abstract).
"""

import math
from collections.abc import Mapping, Sequence

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

Finding = tuple[bool, str, str]
BUSY = "That can be: the ranks share this machine's cores with other programs."
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


def of_layer_wise(
    measured: Mapping[tuple[str, str], float], foretold: Mapping[tuple[str, str], float]
) -> Finding:
    """Exposed seconds by network and way: where the bytes sit decides what layer by layer gains.

    The networks are the keys' first parts: the last one has its bytes in the first layer.
    """
    names = list(dict.fromkeys(name for name, _ in measured))
    whole, single = WAYS
    hidden = {name: 1 - measured[name, single] / measured[name, whole] for name in names}
    by_model = {name: 1 - foretold[name, single] / foretold[name, whole] for name in names}
    listed = ", ".join(f"{hidden[name]:.0%} with the {name}" for name in names)
    *others, first = names
    return (
        min(hidden[name] for name in others) > 0.5 > hidden[first],
        f"**Answer.** Layer by layer hides so much of the waiting: {listed}. The predictor has "
        + ", ".join(f"{by_model[name]:.0%}" for name in names)
        + ".",
        f"layer by layer hides {listed}. {BUSY}",
    )


def of_last_layers(model: Model, count: int) -> Finding:
    """The share of the bytes, and of the operations, that the last `count` layers have."""
    last = model.layers[-count:]
    of_bytes = sum(layer.parameter_bytes for layer in last) / model.parameter_bytes
    of_flop = sum(layer.flop for layer in last) / model.flop
    seen = (
        f"the last {count} of {len(model.layers)} layers of {model.name} have {of_bytes:.0%} of "
        f"the bytes and {of_flop:.1%} of the operations"
    )
    return (
        of_bytes > 0.8 and of_flop < 0.1,
        f"That suits networks of the day: {seen}. Their gradients are there soon after backward "
        "begins, and nearly all of it is left to hide them.",
        f"{seen}.",
    )


def on_a_cluster(
    model: Model, images_per_s: float, batch: int, network: Network, ranks: int
) -> dict[tuple[str, str], Prediction]:
    """What is foretold of `ranks` ranks, by all-reduce (flat ring, two levels) and by way."""
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


def of_both(predictions: Mapping[tuple[str, str], Prediction]) -> Finding:
    """Layer by layer on a flat ring pays a latency for each layer and rank; two levels do not."""
    whole, single = WAYS
    left = {key: one.efficiency for key, one in predictions.items()}
    flat, two = left["ring", single], left["hierarchical", single]
    seen = (
        f"{left['ring', whole]:.0%} with all at once over a flat ring, {flat:.0%} layer by layer, "
        f"{left['ring', BUCKETS]:.0%} in buckets; {left['hierarchical', whole]:.0%}, {two:.0%} and "
        f"{left['hierarchical', BUCKETS]:.0%} with two levels"
    )
    return (
        left["ring", whole] < flat < left["ring", BUCKETS] < two,
        f"**Answer.** The efficiency is {seen}. Small messages need an all-reduce with few steps.",
        f"the efficiency is {seen}.",
    )
