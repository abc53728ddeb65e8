"""Published scaling tables of ResNet-50, each with points that are given and points that are not.

Rates are nominal: what an all-reduce got of them is to be found. α and the rate within a node are
guesses; at these sizes they change what is foretold by less than 3 %. Buckets are of 64 MB, as
Horovod fused gradients by default then.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

Points = list[tuple[int, float]]  # (ranks, images/s)

ALPHA, WITHIN = (5e-6, 2e-5), 80e9  # seconds within and across nodes, bit/s within
BUCKET_BYTES = 64 << 20
BATCH = 64  # per GPU

TENSORFLOW = "TensorFlow's benchmarks page, May 2017"
MICROSOFT = "Salvaris (Microsoft) 2018, read from plots to 1 %"
# (source, name, GPUs per node, bit/s of a node, how many points are given, points)
TABLES = (
    (
        MICROSOFT,
        "V100, InfiniBand",
        4,
        56e9,
        5,
        ((1, 336), (2, 668), (4, 979), (8, 1809), (16, 3404), (32, 6514)),
    ),
    (
        MICROSOFT,
        "V100, TCP",
        4,
        24e9,
        5,
        ((1, 349), (2, 674), (4, 1243), (8, 1247), (16, 2210), (32, 4269)),
    ),
    (
        MICROSOFT,
        "P100, InfiniBand",
        4,
        56e9,
        4,
        ((1, 226), (4, 863), (8, 1616), (16, 3041), (32, 5820)),
    ),
    (
        TENSORFLOW,
        "K80, 20 Gbit/s",
        8,
        20e9,
        4,
        ((1, 52.4), (8, 378), (16, 751), (32, 1388), (64, 2744)),
    ),
)


@dataclass(frozen=True)
class Published:
    """A table's job, the points that `fit` is given, and those it is to foretell."""

    source: str
    name: str
    job: dict[str, Any]
    given: Points
    unseen: Points

    @property
    def foretold_at(self) -> list[int]:
        return [ranks for ranks, _ in self.unseen]


@cache
def published() -> tuple[Published, ...]:
    found = []
    for source, name, per_node, rate, given, points in TABLES:
        job = {
            "layers": resnet50(),
            "batch": BATCH,
            "alone": points[0][1],
            "bucket_bytes": BUCKET_BYTES,
            "network": {
                "per_node": per_node,
                "inside": (ALPHA[0], WITHIN),
                "across": (ALPHA[1], rate),
            },
        }
        found.append(Published(source, name, job, list(points[:given]), list(points[given:])))
    return tuple(found)


def resnet50() -> list[tuple[float, int]]:
    """(FLOP for an image of 224 × 224, bytes of gradients) of each convolution and the classifier.

    He et al. 2016, Deep residual learning for image recognition, table 1: 54 layers, 25.6 million
    parameters (a normalisation's are counted with its convolution), 4.1 billion multiply-adds.
    """
    layers: list[tuple[float, int]] = []

    def convolution(inputs: int, outputs: int, kernel: int, size: int) -> None:
        weights = inputs * outputs * kernel**2
        layers.append((2.0 * weights * size**2, 4 * (weights + 2 * outputs)))

    convolution(3, 64, 7, 112)
    width = 64
    for stage, (blocks, middle) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512))):
        size = 56 >> stage
        for block in range(blocks):
            halves = stage > 0 and block == 0  # in the 3 × 3 convolution, as torchvision does
            convolution(width, middle, 1, 2 * size if halves else size)
            convolution(middle, middle, 3, size)
            convolution(middle, 4 * middle, 1, size)
            if block == 0:
                convolution(width, 4 * middle, 1, size)
            width = 4 * middle
    layers.append((2.0 * width * 1000, 4 * (width + 1) * 1000))
    return layers
