"""The training script's interface to a back end; the base class serves a single rank."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.profiler import record_function

from hpml.train import checkpoint


class Backend:
    """One rank alone. The others are built on it."""

    rank = 0
    world_size = 1

    @property
    def replica(self) -> int:
        """Which copy of the network this rank belongs to, of `replicas`; each sees its images."""
        return self.rank

    @property
    def replicas(self) -> int:
        return self.world_size

    def sum(self, tensor: Tensor) -> None:
        """Make `tensor`, in place, the sum of all ranks' tensors. A collective."""

    def maximum(self, tensor: Tensor) -> None:
        """Make `tensor`, in place, the largest of all ranks', by element. A collective."""

    def split(self, network: nn.Module) -> nn.Module:
        """What this rank has of `network`, whose weights are the same on all ranks."""
        return network

    def parallel(self, network: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        """The network to call and the optimizer to step, for gradients averaged over all ranks.

        All ranks start from rank 0's weights and buffers.
        """
        return network, optimizer

    def gradients(
        self,
        forward: Callable[[Tensor], Tensor],
        loss: Callable[[Tensor, Tensor], Tensor],
        images: Tensor,
        labels: Tensor,
    ) -> tuple[Tensor, Tensor] | None:
        """Forward and backward: add the gradient of the mean of loss(forward(images), labels).

        Logits [B, C] and losses [B], where this rank is the one that counts them; else None.
        """
        logits = forward(images)
        losses = loss(logits, labels)
        with record_function("backward"):
            losses.mean().backward()
        return logits.detach(), losses.detach()

    def logits(self, forward: Callable[[Tensor], Tensor], images: Tensor) -> Tensor | None:
        """Forward alone: logits [B, C], where this rank is the one that counts them."""
        return forward(images)

    def save(self, folder: Path, plain: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Write a checkpoint of plain values and of `tensors` (state.py). All ranks call this."""
        if self.rank == 0:
            checkpoint.save(folder, plain | {"tensors": tensors})
            checkpoint.remove_shards(folder)

    def load(self, folder: Path, saved: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Set `tensors` to those of the checkpoint in `folder`, of which `saved` was loaded."""
        if "shards" in saved:
            from hpml.train import sharded_checkpoint

            sharded_checkpoint.load(folder, saved, tensors)
            return
        with torch.no_grad():
            for name, tensor in tensors.items():
                tensor.copy_(saved["tensors"][name])
