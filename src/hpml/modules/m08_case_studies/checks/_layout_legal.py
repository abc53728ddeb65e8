"""Which layouts of choose_layout are legal: what each size has to divide."""

from collections.abc import Mapping
from typing import Any

Model = Mapping[str, int]  # layers, heads, width, sequences, tokens: as the exercise gives it
Cluster = Mapping[str, Any]  # ranks, per_node, memory, flops, inside, across
Layout = Mapping[str, int]  # data, tensor, pipeline, stage, micro_batches
Table = Mapping[tuple[int, ...], tuple[float, float]]  # legal sizes, as KEYS: (bytes, seconds)

KEYS = ("data", "tensor", "pipeline", "stage", "micro_batches")


def illegal(model: Model, cluster: Cluster, layout: Layout) -> str | None:
    """What a layout does not divide: "ranks", "layers", "heads", "batch" or "stage"; or None."""
    if layout["stage"] not in range(4):
        return "stage"
    sizes = [layout[key] for key in KEYS if key != "stage"]
    if min(sizes) < 1 or layout["data"] * layout["tensor"] * layout["pipeline"] != cluster["ranks"]:
        return "ranks"
    if model["layers"] % layout["pipeline"]:
        return "layers"
    if model["heads"] % layout["tensor"]:
        return "heads"
    return "batch" if model["sequences"] % (layout["data"] * layout["micro_batches"]) else None
