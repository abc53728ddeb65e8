"""Tensor parallelism of a transformer's blocks, as Megatron-LM does it.

The first matrix of a pair is split by columns, the second by rows: Y = Σ_i GELU(X A_i) B_i, with
one all-reduce forward, of Y, and one backward, of the gradient of X. So the pair of the MLP; in
attention each rank has whole heads (Shoeybi et al. 2019, arXiv:1909.08053, section 3).
"""

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    parallelize_module,
)


def split_blocks(blocks: nn.Module, mesh: DeviceMesh) -> None:
    """Split every `Block` in `blocks` over the ranks of the one-dimensional `mesh`, in place.

    All ranks must have the same weights: each keeps its part of its own.
    """
    # Query, key and value take one and the same input: made a DTensor once, its gradient is
    # added up on the rank first and all-reduced once, not three times.
    whole = PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Replicate())
    plan = {
        "attention": whole,
        "attention.query": ColwiseParallel(),
        "attention.key": ColwiseParallel(),
        "attention.value": ColwiseParallel(),
        "attention.out": RowwiseParallel(),
        "mlp.up": ColwiseParallel(),
        "mlp.down": RowwiseParallel(),
    }
    for block in blocks.children():
        parallelize_module(block, mesh, plan, src_data_rank=None)
