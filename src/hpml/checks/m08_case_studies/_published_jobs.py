"""Published scaling tables as jobs: points that are given, and the largest size, which is not.

Of two clusters in `hpml.predict.published_scaling`, these are all tables that begin with one rank,
count images/s, and have three sizes of more than one node: two to fit, one to foretell. None was
left out for what came of it.

What the sources do not give is the same for all: buckets of 64 MB, as Horovod fused gradients by
default before version 0.21; 50 Gbit/s where no rate is given (the share of it is fitted anyway);
80 Gbit/s within a node; α of 5 and 20 µs.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

from hpml.predict.model_layers import model
from hpml.predict.published_scaling import Row, tables

CLUSTERS = ("azure-", "tf-ec2-distributed-")
Points = list[tuple[int, float]]  # (ranks, images/s)

BUCKET_BYTES = 64 << 20
INSIDE, ALPHA_ACROSS, GBIT_ACROSS = (5e-6, 80e9), 2e-5, 50.0


@dataclass(frozen=True)
class Published:
    """A table's job, the points that `fit` is given, and those it is to foretell."""

    rows: tuple[Row, ...]
    job: dict[str, Any]
    given: Points
    unseen: Points

    @property
    def name(self) -> str:
        """'resnet50 on V100, Ethernet, TCP': as a reader names the table."""
        row = self.rows[0]
        network = row.network.partition(" (")[0]
        return f"{row.model} on {row.processor}, batch {row.batch}, {network}"

    @property
    def foretold_at(self) -> list[int]:
        return [ranks for ranks, _ in self.unseen]


@cache
def published() -> tuple[Published, ...]:
    """In the order of the file."""
    return tuple(_published(rows) for rows in tables().values() if _suits(rows))


def _suits(rows: tuple[Row, ...]) -> bool:
    first = rows[0]
    if not first.table.startswith(CLUSTERS):
        return False
    images = first.ranks == 1 and first.unit == "images/s" and first.scaling == "weak"
    return images and sum(row.nodes > 1 for row in rows) >= 3


def _published(rows: tuple[Row, ...]) -> Published:
    first = rows[0]
    points = [(row.ranks, row.value) for row in rows]
    job = {
        "layers": [(layer.flop, layer.parameter_bytes) for layer in model(first.model).layers],
        "batch": first.batch,
        "alone": first.value,
        "bucket_bytes": BUCKET_BYTES,
        "network": {
            "per_node": first.per_node,
            "inside": INSIDE,
            "across": (ALPHA_ACROSS, 1e9 * (first.network_gbit or GBIT_ACROSS)),
        },
    }
    return Published(rows, job, points[:-1], points[-1:])
