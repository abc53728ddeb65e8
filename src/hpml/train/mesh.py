"""A mesh of ranks as a back end: sharded copies, pipeline stages, split matrices, or all three.

Each rank makes the whole network from the seed first and keeps its part of it, so that all layouts
start from the same weights; a network that no rank can hold would have to be made in parts.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.optim import Optimizer

from hpml.train.ddp import Ddp
from hpml.train.layout import Layout
from hpml.train.state import local

if TYPE_CHECKING:
    from hpml.train.pipeline import Pipeline


class Mesh(Ddp):
    """Ranks laid out by `layout`, on torch.distributed's default group."""

    def __init__(self, layout: Layout, micro_batches: int, device: torch.device):
        super().__init__()
        self.layout, self.micro_batches, self.device = layout, micro_batches, device
        self.mesh = init_device_mesh(
            device.type,
            (layout.data, layout.pipeline, layout.tensor),
            mesh_dim_names=("data", "pipeline", "tensor"),
        )
        self.copies = self.mesh["data"].get_group()
        self.pipeline: Pipeline | None = None
        self.averages = False

    @property
    def replica(self) -> int:
        return self.mesh.get_local_rank("data")

    @property
    def replicas(self) -> int:
        return self.layout.data

    @property
    def counts(self) -> bool:
        """Whether this rank counts its copy's images; the others that have them do not."""
        return self.mesh.get_local_rank("tensor") == 0

    def split(self, network: Any) -> nn.Module:
        """This rank's stage, its part of each matrix, and of that its shard: in this order."""
        # What a layout does not need is not imported: each takes a good part of a second.
        if self.layout.pipeline > 1:
            from hpml.train.pipeline import Pipeline, Stage

            shape = tuple(network.embed.positions.shape)
            self.pipeline = Pipeline(self.mesh, self.micro_batches, shape)
            network = Stage(network, self.pipeline.stage, self.pipeline.stages)
        if self.layout.tensor > 1:
            from hpml.train.tensor_parallel import split_blocks

            split_blocks(network.blocks, self.mesh["tensor"])
        if self.layout.shard == "fsdp" and self.layout.data > 1:
            from torch.distributed.fsdp import fully_shard

            # A unit's parameters are gathered together, and freed after its forward.
            units = network.stages if hasattr(network, "stages") else network.blocks
            for unit in (*units.children(), network):
                fully_shard(unit, mesh=self.mesh["data"])
        return network

    def parallel(self, network: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        self.network = called = network
        self.averages = self.layout.data > 1 and self.layout.shard != "fsdp"
        if self.layout.shard == "zero1" and self.layout.data > 1:
            from torch.distributed.optim import ZeroRedundancyOptimizer

            # The groups bring all settings with them.
            optimizer = ZeroRedundancyOptimizer(
                optimizer.param_groups, type(optimizer), process_group=self.copies
            )
            if self.layout.pipeline == 1:
                called, self.averages = super().parallel(network, optimizer)[0], False
        return called, optimizer

    def gradients(
        self,
        forward: Callable[[Tensor], Tensor],
        loss: Callable[[Tensor, Tensor], Tensor],
        images: Tensor,
        labels: Tensor,
    ) -> tuple[Tensor, Tensor] | None:
        if self.pipeline:
            results = self.pipeline.gradients(forward, loss, self.network, images, labels)
        else:
            results = super().gradients(forward, loss, images, labels)
        if self.averages:
            average_gradients(self.network.parameters(), self.copies)
        return results if self.counts else None

    def logits(self, forward: Callable[[Tensor], Tensor], images: Tensor) -> Tensor | None:
        logits = self.pipeline.logits(forward, images) if self.pipeline else forward(images)
        return logits if self.counts else None

    def save(self, folder: Path, plain: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        from hpml.train import sharded_checkpoint

        sharded_checkpoint.save(folder, plain, tensors, self.device)

    def load(self, folder: Path, saved: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        from hpml.train import sharded_checkpoint

        if "tensors" in saved:
            sharded_checkpoint.load_whole(saved["tensors"], tensors)
        else:
            sharded_checkpoint.load(folder, saved, tensors)


def average_gradients(parameters: Iterable[nn.Parameter], group: dist.ProcessGroup) -> None:
    """Make all gradients their mean over `group`: one all-reduce, after backward."""
    own = [local(parameter.grad) for parameter in parameters if parameter.grad is not None]
    together = torch.cat([one.flatten() for one in own])
    dist.all_reduce(together, group=group)
    together /= group.size()
    for one, mean in zip(own, together.split([one.numel() for one in own]), strict=True):
        one.copy_(mean.view_as(one))
