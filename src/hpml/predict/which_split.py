"""What to split, for a transformer on a cluster: every layout's bytes and seconds, by formula.

A layout is data × pipeline × tensor ranks, and a stage of ZeRO over the data ranks. Tensor ranks
are neighbours, then come the data ranks, then the stages of the pipeline. Each part is a formula of
module 07: states (`hpml.predict.zero`), the slots of 1F1B (`hpml.predict.pipeline`), all-reduces on
two levels (`hpml.predict.collectives`, "hierarchical").

Assumed is mixed precision with Adam, fused attention, and that gradients and gathers travel layer
by layer while a rank computes. Left out are latency, operators that are slow when they are small,
embeddings, and slow nodes.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import gcd

from hpml.predict import zero

RESERVE = 0.1  # of a GPU's memory: its context, buffers of NCCL, fragments between tensors


@dataclass(frozen=True)
class Transformer:
    """A transformer and its batch, which is `tokens` tokens in sequences of `sequence` each.

    With `recompute`, a layer keeps only its input, and is computed once more in backward. With
    `sequence_parallel`, tensor ranks share all activations; without, 24 of 34 bytes.
    """

    layers: int
    width: int
    tokens: int
    sequence: int
    recompute: bool = False
    sequence_parallel: bool = False

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

    def half_all_reduce(self, ranks: int, apart: int, nbytes: float) -> float:
        """Seconds of a reduce-scatter, or of an all-gather, of `nbytes` among so many ranks, each
        `apart` from the next one.

        On two levels: among those on a node, and then each of them with its like on other nodes,
        on its own part (as in Cho et al. 2019, BlueConnect).
        """
        near = gcd(ranks, self.per_node // apart) if self.per_node % apart == 0 else 1
        inside, between = (near - 1) / near, (ranks / near - 1) / ranks
        return nbytes * (inside / self.inside + between / self.between)


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

    @property
    def of_a_copy(self) -> int:
        """How many ranks hold one copy of the model."""
        return self.pipeline * self.tensor

    def __str__(self) -> str:
        over = {"data": self.data, "pipeline": self.pipeline, "tensor": self.tensor}
        parts = [f"{name} {size}" for name, size in over.items() if size > 1]
        words = " × ".join(parts) or "one rank"
        return words + (f", ZeRO-{self.stage}" if self.stage else "")


def layouts(model: Transformer, cluster: Cluster) -> Iterator[Layout]:
    """Every layout on all ranks of the cluster, whether or not it fits.

    Tensor ranks are on one node. Micro-batches are whole sequences.
    """
    for tensor in _divisors(cluster.ranks):
        if cluster.per_node % tensor or model.width % tensor:
            continue
        for pipeline in _divisors(cluster.ranks // tensor):
            data = cluster.ranks // tensor // pipeline
            sequences, rest = divmod(model.tokens, data * model.sequence)
            if model.layers % pipeline or rest or not sequences:
                continue
            for m in _divisors(sequences):
                for stage in range(4) if data > 1 else (0,):
                    yield layout(model, cluster, data, pipeline, tensor, stage, m)


def fitting(found: Iterable[Layout], memory: float) -> list[Layout]:
    """Those that fit into `memory` bytes of a rank, less the reserve."""
    return [one for one in found if one.nbytes <= (1 - RESERVE) * memory]


def choose(model: Transformer, cluster: Cluster) -> Layout | None:
    """The layout that takes the least time of those that fit; the simplest of equals; or None."""
    found = fitting(layouts(model, cluster), cluster.memory)
    simple = lambda one: (one.tensor * one.pipeline, one.stage, one.micro_batches)  # noqa: E731
    return min(found, key=lambda one: (float(f"{one.seconds:.2g}"), simple(one)), default=None)


def layout(
    model: Transformer, cluster: Cluster, data: int, pipeline: int, tensor: int, stage: int, m: int
) -> Layout:
    """What one layout takes, with m micro-batches."""
    part = _Part(model, cluster, data, pipeline, tensor, stage, m)
    seconds, waits = part.seconds()
    return Layout(data, pipeline, tensor, stage, m, part.nbytes(), seconds, waits)


@dataclass(frozen=True)
class _Part:
    """What a rank of the first stage has of the model and of its batch."""

    model: Transformer
    cluster: Cluster
    data: int
    pipeline: int
    tensor: int
    stage: int
    m: int

    @property
    def parameters(self) -> float:
        return self.model.parameters / self.tensor / self.pipeline

    @property
    def layers(self) -> float:
        return self.model.layers / self.pipeline

    @property
    def activations(self) -> float:
        """Bytes of a micro-batch's between two layers."""
        return self.cluster.number * self.model.width * self.model.tokens / self.data / self.m

    def nbytes(self) -> float:
        """What the rank holds, at most."""
        each = zero.MIXED_ADAM if self.cluster.number == 2 else zero.Bytes(4, 4, 8)
        held = zero.on_a_rank(self.stage, self.parameters, self.data, each).total
        if self.stage == 3:  # a layer in use, and the next one
            others = (self.data - 1) / self.data * each.parameters * self.parameters
            held += others * min(1.0, 2 / self.layers)
        # 34 bytes of activations for each token, layer and number of the width, in 16 bits; tensor
        # ranks share 24 of them (Korthikanti et al. 2022, arXiv:2205.05198, sections 4.1 and 4.2,
        # equations 1 and 2, without the scores of attention). Of a layer's input alone: 2
        shared = 34 if self.model.sequence_parallel else 24
        whole = (34 - shared + shared / self.tensor) / 2 * self.activations
        live = min(self.m, self.pipeline) * self.layers  # as 1F1B has it
        if self.model.recompute:
            return held + self.activations * live + whole
        return held + whole * live

    def seconds(self) -> tuple[float, float]:
        """Of a step, and of them those in which a rank computes nothing."""
        cluster, again = self.cluster, self.model.recompute
        tokens = self.model.tokens / self.data / self.m
        forward = 2 * self.parameters * tokens / cluster.flops
        backward = (3 if again else 2) * forward
        reduces = (6 if again else 4) * self.layers
        slot = forward + backward
        slot += reduces * 2 * cluster.half_all_reduce(self.tensor, 1, self.activations)
        if self.pipeline > 1:  # tensor ranks send parts (Narayanan et al. 2021, section 4.1)
            near = cluster.per_node % cluster.ranks == 0
            rate = cluster.inside if near else cluster.between
            slot += 2 * self.activations / self.tensor / rate
        nbytes = cluster.number * self.parameters
        half = cluster.half_all_reduce(self.data, self.tensor, nbytes)
        # Gradients travel while the last micro-batch's backward pass runs; from stage 2 on in that
        # of each: nobody keeps them whole. In stage 3 each pass gathers layer by layer, ahead.
        after = (
            max(0.0, 2 * half - backward),
            max(0.0, half - backward) + half,
            self.m * max(0.0, half - backward) + half,
            self.m * (max(0.0, half - forward) + max(0.0, 2 * half - backward)),
        )[self.stage]
        seconds = (self.m + self.pipeline - 1) * slot + after
        return seconds, seconds - self.m * (forward + backward)


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
