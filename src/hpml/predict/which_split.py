"""What to split, for a transformer on a cluster: every layout's bytes and seconds, by formula.

A layout is data × pipeline × tensor ranks, and a stage of ZeRO over the data ranks. Each part is
a formula of module 07: states (`hpml.predict.zero`), the bubble (`hpml.predict.pipeline`) and
all-reduces (`hpml.predict.collectives`). Left out are latency, and operators that are slow when
they are small.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from hpml.predict import zero
from hpml.predict.collectives import all_reduce_bytes
from hpml.predict.pipeline import bubble


@dataclass(frozen=True)
class Transformer:
    """A transformer and its batch, which is `tokens` tokens in sequences of `sequence` each."""

    layers: int
    width: int
    tokens: int
    sequence: int

    @property
    def parameters(self) -> int:
        """12 w² for each layer; embeddings and biases are left out."""
        return 12 * self.layers * self.width**2


@dataclass(frozen=True)
class Cluster:
    """`memory` in bytes of a rank; `flops` that it reaches each second; rates in byte/s.

    `inside` is a rank's rate to others on its node, `between` to those on other nodes, with all
    ranks of the node sending. `number` is the bytes of a number that is sent: 2, or 4 where all is
    trained in float32.
    """

    ranks: int
    per_node: int
    memory: float
    flops: float
    inside: float
    between: float
    number: int = 2


@dataclass(frozen=True)
class Layout:
    """One way to split, what it takes on a rank in bytes, and the seconds of a step.

    `waits` are the seconds in which a rank computes nothing: the bubble, and what is waited for.
    """

    data: int
    pipeline: int
    tensor: int
    stage: int
    micro_batches: int
    nbytes: float
    seconds: float
    waits: float

    def __str__(self) -> str:
        over = {"data": self.data, "pipeline": self.pipeline, "tensor": self.tensor}
        parts = [f"{name} {size}" for name, size in over.items() if size > 1]
        words = " × ".join(parts) or "one rank"
        return words + (f", ZeRO-{self.stage}" if self.stage else "")


def layouts(model: Transformer, cluster: Cluster) -> Iterator[Layout]:
    """Every layout on all ranks of the cluster, whether or not it fits.

    Tensor ranks are on one node. Micro-batches: powers of two that divide a copy's sequences.
    """
    for tensor in _divisors(cluster.ranks):
        if tensor > cluster.per_node or model.width % tensor:
            continue
        for pipeline in _divisors(cluster.ranks // tensor):
            data = cluster.ranks // tensor // pipeline
            sequences, rest = divmod(model.tokens, data * model.sequence)
            if model.layers % pipeline or rest:
                continue
            m = 1
            while sequences % m == 0:
                for stage in (0, 1, 3) if data > 1 else (0,):
                    if stage < 3 or pipeline == 1:
                        yield _layout(model, cluster, data, pipeline, tensor, stage, m)
                m *= 2


def choose(model: Transformer, cluster: Cluster) -> Layout | None:
    """The layout that takes the least time of those that fit; the simplest of equals; or None."""
    fitting = [one for one in layouts(model, cluster) if one.nbytes <= cluster.memory]
    simple = lambda one: (one.tensor * one.pipeline, one.stage, one.micro_batches)  # noqa: E731
    return min(fitting, key=lambda one: (float(f"{one.seconds:.2g}"), simple(one)), default=None)


def _layout(
    model: Transformer, cluster: Cluster, data: int, pipeline: int, tensor: int, stage: int, m: int
) -> Layout:
    mine = model.parameters / tensor / pipeline
    tokens = model.tokens / data  # of one copy
    # About 34 bytes of activations for each token, layer and number of the width, in 16 bits
    # (Korthikanti et al. 2022, section 4.1, equation 1, without the scores of attention)
    kept = 17 * cluster.number * model.width * model.layers / pipeline / tensor
    live = tokens / m * min(m, pipeline)  # as 1F1B has it
    each = zero.MIXED_ADAM if cluster.number == 2 else zero.Bytes(4, 4, 8)
    nbytes = zero.on_a_rank(stage, int(mine), data, each).total + kept * live
    if stage == 3:
        nbytes += 2 * cluster.number * mine / model.layers  # a layer in use, and the next one

    compute = 6 * model.parameters * model.tokens / cluster.ranks / cluster.flops
    idle = compute * bubble(pipeline, m) / (1 - bubble(pipeline, m))
    activations = cluster.number * tokens * model.width
    layers = model.layers / pipeline
    waited = 4 * layers * all_reduce_bytes(tensor, activations) / cluster.inside
    if pipeline > 1:
        near = cluster.ranks <= cluster.per_node
        waited += 2 * activations / tensor / (cluster.inside if near else cluster.between)
    # The gradients of the last micro-batch travel while its backward pass runs. With stage 3 every
    # micro-batch gathers twice.
    gathers = {0: 1, 1: 1, 3: 2 * m}[stage]
    weights = (1 + gathers) / 2 * all_reduce_bytes(data, cluster.number * mine)
    rate = cluster.inside if data * tensor * pipeline <= cluster.per_node else cluster.between
    hides = compute if stage == 3 else compute * 2 / 3 / m
    waited += max(0.0, weights / rate - hides)
    return Layout(data, pipeline, tensor, stage, m, nbytes, compute + idle + waited, idle + waited)


def measured_flops(seconds: float = 0.3) -> float:
    """Floating-point operations each second that one thread of this machine reaches in a block of
    width 512, forward and backward, on 128 tokens: the quickest of the steps in so many seconds."""
    import time

    import torch

    from hpml.models.vision_transformer import Block

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        block, tokens = Block(512, heads=8), torch.randn(8, 16, 512, requires_grad=True)
        best, end = float("inf"), time.perf_counter() + seconds
        while time.perf_counter() < end or best == float("inf"):
            start = time.perf_counter()
            block(tokens).sum().backward()
            best = min(best, time.perf_counter() - start)
    finally:
        torch.set_num_threads(threads)
    return 6 * 12 * 512**2 * 128 / best


def _divisors(number: int) -> list[int]:
    return [k for k in range(1, number + 1) if number % k == 0]
