"""A reduce-scatter of an all-to-all and a sum, for `fully_shard` on Gloo.

Gloo's reduce_scatter_single is an all-reduce of which a rank keeps its part: it sends 2 (p-1)/p of
the tensor. Here each rank sends every other one just its part: (p-1)/p. NCCL needs no such thing.
"""

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule
from torch.distributed.fsdp._fully_shard._fsdp_api import ReduceScatter


class PartsReduceScatter(ReduceScatter):
    """For `FSDPModule.set_custom_reduce_scatter`; adds up, or averages with ReduceOp.AVG."""

    def allocate(
        self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device
    ) -> torch.Tensor:
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: dist.ProcessGroup,
        op: dist.ReduceOp.RedOpType,
        async_op: bool = False,
    ) -> None:
        arriving = torch.empty_like(input_tensor)
        dist.all_to_all_single(arriving, input_tensor, group=group)
        parts = arriving.view(dist.get_world_size(group), -1)
        if op == dist.ReduceOp.AVG:
            torch.mean(parts, dim=0, out=output_tensor.view(-1))
        elif op == dist.ReduceOp.SUM:
            torch.sum(parts, dim=0, out=output_tensor.view(-1))
        else:
            raise ValueError(f"{op} of the ranks' parts: give SUM or AVG")


def send_parts_only(model: torch.nn.Module) -> None:
    """Have every sharded module of `model` reduce its gradients so."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_custom_reduce_scatter(PartsReduceScatter())
