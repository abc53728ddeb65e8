"""Published scaling tables as jobs: points that are given, and the largest size, which is not.

ResNet-50 by Horovod on Azure's virtual machines, four GPUs each: four kinds of GPU, each on two
networks. These are all tables of that study for this model; none was left out for what came of
it.

What the sources do not give is the same for all: buckets of 64 MB, as Horovod fused gradients by
default before version 0.21; 50 Gbit/s where no rate is given (the share of it is fitted anyway);
80 Gbit/s within a node; α of 5 and 20 µs.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

from hpml.predict.model_layers import model
from hpml.predict.published_scaling import Row, table

IDS = tuple(
    f"azure-{gpu}-resnet50-{network}"
    for gpu in ("k80", "p40", "p100", "v100")
    for network in ("rdma", "tcp")
)
Points = list[tuple[int, float]]  # (ranks, images/s)

BUCKET_BYTES = 64 << 20
INSIDE, ALPHA_ACROSS, GBIT_ACROSS = (5e-6, 80e9), 2e-5, 50.0


@dataclass(frozen=True)
class Published:
    """A table's job, the points that `fit` is given, and those it is to predict."""

    rows: tuple[Row, ...]
    job: dict[str, Any]
    given: Points
    unseen: Points

    @property
    def name(self) -> str:
        """'ResNet-50 on V100, Ethernet, TCP': as a reader names the table."""
        return f"ResNet-50 on {self.rows[0].processor}, {self.rows[0].network}"

    @property
    def predicted_at(self) -> list[int]:
        return [ranks for ranks, _ in self.unseen]


def fitted_points(job: dict[str, Any], points: Points) -> Points:
    """The two smallest sizes beyond one node."""
    return sorted(point for point in points if point[0] > job["network"]["per_node"])[:2]


@cache
def published() -> tuple[Published, ...]:
    """In the order of `IDS`."""
    return tuple(_published(table(name)) for name in IDS)


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
