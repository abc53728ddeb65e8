"""A step of the course's network on many GPUs, from a recorded GPU and the data sheets of links."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from hpml.predict.collectives import Cost
from hpml.predict.interconnects import INSIDE, NET, nodes
from hpml.predict.model_layers import model
from hpml.predict.scaling import Training, bucket_seconds, buckets, predict

PER_NODE = 8  # GPUs of a node, each with a port of the network
PORT = 400e9  # bit/s


class AtScale(NamedTuple):
    """Seconds of a step: one GPU's computing, and of the all-reduce the messages' latency and the
    bytes. `held`: it is the latency that counts, and it is a clear part of the step."""

    held: bool
    device: str  # as its vendor names it
    ranks: int
    batch: int  # images on each
    compute: float
    latency: float
    bytes: float

    @property
    def share(self) -> float:
        """Of communication, in a step that overlaps nothing."""
        sent = self.latency + self.bytes
        return sent / (self.compute + sent)


def at_scale(run: Mapping[str, Any], device: str, ranks: int = 256) -> AtScale:
    """A recorded run of the course's training ("images_per_second" with a "batch_size") on one
    `device`, as fast on each of `ranks`.

    One ring over all ranks (`hpml.predict.scaling`), over NVLink 4 inside a node of eight, and over
    eight ports of 400 Gbit/s between nodes.
    """
    network = nodes(PER_NODE, INSIDE["nvlink4"], Cost(NET, 8 / (PER_NODE * PORT)))
    batch = run["batch_size"]
    training = Training(model("course"), run["images_per_second"], batch, network, overlap=False)
    step = predict(training, ranks).step
    latency = len(buckets(training)) * bucket_seconds(training, 0.0, ranks)
    sent = step.exposed - latency
    held = latency > 2 * sent and step.exposed > 0.1 * step.compute
    return AtScale(held, device, ranks, batch, step.compute, latency, sent)
