"""The throughput of an input pipeline: images per second."""

import time
from collections.abc import Iterable, Mapping
from typing import Any


def images_per_second(batches: Iterable[Any], compute: float = 0.0, epochs: int = 2) -> float:
    """Images that pass per second in the quickest of `epochs` passes over `batches`.

    Each batch is (images, labels), of any framework. `compute` are the seconds for which a GPU
    would be busy with each batch while the processor is free. The first pass includes what happens
    only once (a cache is filled, processes start): make at least two.
    """
    rates = []
    for _ in range(epochs):
        images, began = 0, time.perf_counter()
        for _, labels in batches:
            images += len(labels)
            if compute:
                time.sleep(compute)
        rates.append(images / (time.perf_counter() - began))
    return max(rates)


def best_by_turns(
    pipelines: Mapping[str, Iterable[Any]], compute: float = 0.0, turns: int = 3
) -> dict[str, float]:
    """Images per second of each pipeline in the quickest of its `turns`.

    They take turns, so that what else the machine does is the same for all. Batches and `compute`
    are as for `images_per_second`.
    """
    rounds = [
        {name: images_per_second(batches, compute, epochs=1) for name, batches in pipelines.items()}
        for _ in range(turns)
    ]
    return {name: max(one[name] for one in rounds) for name in pipelines}
