"""The ways to split a transformer that `./hpml bench shard` compares: on a rank, a step of each."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from hpml.models import VisionTransformer
from hpml.train.layout import Layout
from hpml.train.mesh import Mesh

SIZE = "small"
MICRO_BATCHES = 8
LEARNING_RATE = 1e-3

Step = Callable[[Tensor, Tensor], Tensor | None]  # images, labels to the mean loss, or None


@dataclass(frozen=True)
class Way:
    """One way to split the network; `base` is the way that it is compared with.

    `exercise` is the one whose answer does it; else the training script's own code does. Of the
    ranks, `pipeline` × `tensor` share a copy of the network; 0 is as many as there are.
    """

    name: str
    shard: str = "none"
    pipeline: int = 1
    tensor: int = 1
    exercise: str = ""
    base: str = "data parallel"
    target: str = ""
    least: int = 2  # ranks

    def layout(self, world_size: int) -> Layout:
        pipeline, tensor = self.pipeline or world_size, self.tensor or world_size
        return Layout(world_size // (pipeline * tensor), pipeline, tensor, self.shard)


WAYS = (
    Way("data parallel"),
    Way("zero1", "zero1"),
    Way("zero1, exercise", "zero1", exercise="zero1", base="zero1"),
    Way("fsdp", "fsdp"),
    Way("fsdp, exercise", "fsdp", exercise="fsdp", base="fsdp", target="at least 0.8"),
    Way("tensor", tensor=0),
    Way("tensor, exercise", tensor=0, exercise="tensor_parallel", base="tensor"),
    Way("pipeline", pipeline=0),
    Way("pipeline, exercise", pipeline=0, exercise="gpipe", base="pipeline"),
    Way("data × tensor 2", tensor=2, least=4),
    Way("data × tensor 2, exercise", tensor=2, exercise="mesh_2d", base="data × tensor 2", least=4),
    Way("fsdp × tensor 2", "fsdp", tensor=2, least=4),
)


def train(
    answer: ModuleType | None, way: Way, batch: int, steps: int
) -> tuple[list[float], float | None]:
    """On a rank: seconds of each step on `batch` images of all ranks together, and the last loss.

    The loss is the mean over this rank's images, None where it does not know it.
    """
    import time

    layout = way.layout(dist.get_world_size())
    torch.manual_seed(0)
    network = make_network()
    images, labels = torch.randn(batch, 3, 32, 32), torch.randint(0, 10, (batch,))
    copy = dist.get_rank() // (layout.pipeline * layout.tensor)
    mine = torch.arange(batch).tensor_split(layout.data)[copy]
    images, labels = images[mine], labels[mine]
    step = (MADE[way.exercise] if way.exercise else by_train)(answer, network, layout)
    taken, loss = [], None
    for _ in range(steps):
        dist.barrier()
        began = time.perf_counter()
        loss = step(images, labels)
        dist.barrier()
        taken.append(time.perf_counter() - began)
    return taken, None if loss is None else loss.item()


def make_network() -> VisionTransformer:
    """The transformer; its queries and values without biases, as in exercise tensor_parallel."""
    network = VisionTransformer.of_size(SIZE)
    for block in network.blocks:
        block.attention.query.bias = block.attention.value.bias = None
    return network


def by_train(answer: Any, network: Any, layout: Layout) -> Step:
    """What `./hpml train` does: torch's wrappers, and the course's own 1F1B for a pipeline."""
    mesh = Mesh(layout, MICRO_BATCHES, torch.device("cpu"))
    network = mesh.split(network)
    if layout.is_plain:  # plain data parallel: no mesh in training
        called, optimizer = DistributedDataParallel(network), make_optimizer(network)
    else:
        called, optimizer = mesh.parallel(network, make_optimizer(network))
    losses = partial(F.cross_entropy, reduction="none")

    def step(images: Tensor, labels: Tensor) -> Tensor | None:
        optimizer.zero_grad()
        counted = mesh.gradients(called, losses, images, labels)
        optimizer.step()
        return counted[1].mean() if counted else None

    return step


def by_zero1(answer: ModuleType, network: Any, layout: Layout) -> Step:
    """The answer's optimizer, and gradients averaged by DistributedDataParallel."""
    called = DistributedDataParallel(network)
    optimizer = answer.ZeroOptimizer(network.parameters(), torch.optim.AdamW, lr=LEARNING_RATE)
    return partial(plain_step, called, optimizer)


def by_fsdp(answer: ModuleType, network: Any, layout: Layout) -> Step:
    """The answer's wrapper around the network."""
    sharded = answer.FullyShard(network)
    return partial(plain_step, sharded, make_optimizer(sharded), then=sharded.synchronize)


def by_tensor_parallel(answer: ModuleType, network: Any, layout: Layout) -> Step:
    """The answer's layers in place of each block's."""

    def split(layer: nn.Module, kind: type, units: int) -> nn.Module:
        state = layer.state_dict()

        def read(name: str, dim: int = 0, start: int = 0, stop: int | None = None) -> Tensor:
            stop = state[name].shape[dim] if stop is None else stop
            return state[name].narrow(dim, start, stop - start).clone()

        return kind(layer_width, units, read)

    layer_width = network.norm.normalized_shape[0]
    for block in network.blocks:
        heads = layer_width // block.attention.head_width
        block.attention = split(block.attention, answer.ParallelAttention, heads)
        block.mlp = split(block.mlp, answer.ParallelMLP, block.mlp.up.out_features)
    return partial(plain_step, network, make_optimizer(network))


def by_mesh_2d(answer: ModuleType, network: Any, layout: Layout) -> Step:
    """The answer's groups and sums around each block's layers, of which a rank has its slices."""
    mesh = answer.Mesh(layout.data, layout.tensor)
    place = dist.get_rank() % layout.tensor

    def cut(layer: nn.Linear, dim: int) -> None:
        layer.weight = nn.Parameter(layer.weight.data.chunk(layout.tensor, dim)[place].clone())
        if layer.bias is not None:
            layer.bias = nn.Parameter(layer.bias.data.chunk(layout.tensor)[place].clone())

    for block in network.blocks:
        attention, mlp = block.attention, block.mlp
        block.attention = InSlices(mesh, attention, attention.out)
        block.mlp = InSlices(mesh, mlp, mlp.down)
        for columns in (attention.query, attention.key, attention.value, mlp.up):
            cut(columns, 0)
        for rows in (attention.out, mlp.down):
            cut(rows, 1)
    average = partial(mesh.average, list(network.parameters()))
    return partial(plain_step, network, make_optimizer(network), then=average)


class InSlices(nn.Module):
    """`inner`, whose result is a part of a sum; `last` is its last layer, the sum gets its bias."""

    def __init__(self, mesh: Any, inner: nn.Module, last: nn.Linear):
        super().__init__()
        self.mesh, self.inner = mesh, inner
        self.bias, last.bias = last.bias, None

    def forward(self, x: Tensor) -> Tensor:
        return self.mesh.leave(self.inner(self.mesh.enter(x))) + self.bias


def by_gpipe(answer: ModuleType, network: Any, layout: Layout) -> Step:
    """The answer's schedule. It receives float64; the stage computes in float32, as all others."""
    from hpml.train.pipeline import Stage

    stage = Stage(network, dist.get_rank(), layout.pipeline)
    optimizer = make_optimizer(stage)
    tokens = tuple(network.embed.positions.shape)
    called = InFloat32(stage)

    def step(images: Tensor, labels: Tensor) -> Tensor | None:
        optimizer.zero_grad()
        parts = images.tensor_split(MICRO_BATCHES)
        inside = images.shape[1:] if dist.get_rank() == 0 else tokens
        shapes = [(len(part), *inside) for part in parts]
        targets = labels.tensor_split(MICRO_BATCHES)
        loss = answer.train_step(called, list(parts), list(targets), F.cross_entropy, shapes)
        optimizer.step()
        return None if loss is None else torch.tensor(loss)

    return step


class InFloat32(nn.Module):
    """`inner`, which computes in float32, from float64 to float64."""

    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x.float()).double()


def plain_step(
    called: nn.Module,
    optimizer: torch.optim.Optimizer,
    images: Tensor,
    labels: Tensor,
    then: Callable[[], None] | None = None,
) -> Tensor:
    """Forward, backward, what is to be done `then`, and the optimizer; returns the mean loss."""
    optimizer.zero_grad()
    loss = F.cross_entropy(called(images), labels)
    loss.backward()
    if then:
        then()
    optimizer.step()
    return loss.detach()


def make_optimizer(network: nn.Module) -> torch.optim.AdamW:
    return torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE)


MADE = {
    "zero1": by_zero1,
    "fsdp": by_fsdp,
    "tensor_parallel": by_tensor_parallel,
    "mesh_2d": by_mesh_2d,
    "gpipe": by_gpipe,
}
