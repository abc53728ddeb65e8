"""The network compiled by torch.compile, where there is what that takes."""

import os
import shutil
import warnings
from typing import Any

import torch
from torch import nn

from hpml.errors import UserError

FIRST_BUCKET = 2**20  # bytes: the smallest bucket at which DDPOptimizer cuts


def compiled(network: nn.Module, device: torch.device) -> nn.Module:
    """`network`, of which the first call on each shape compiles forward and backward.

    Of DistributedDataParallel the graph is cut where a bucket is full, so that it leaves while
    backward goes on (torch/_dynamo/backends/distributed.py, DDPOptimizer). Raises UserError where a
    processor's code cannot be compiled: there is no C++ compiler.
    """
    wanted = os.environ.get("CXX", "g++")
    if device.type == "cpu" and not shutil.which(wanted):
        raise UserError(
            f"--compile: {wanted} is not installed, and torch.compile needs a C++ compiler: "
            "apt install g++, or conda install gxx"
        )
    from torch._dynamo import config  # half a second, and most runs compile nothing

    # Advice for the author of the network, of which a learner can follow none.
    warnings.filterwarnings("ignore", module=r"torch\._(dynamo|inductor|functorch)")
    cap = getattr(network, "bucket_bytes_cap", FIRST_BUCKET)
    # It is not cut at smaller ones: then all gradients leave when backward is over.
    config.optimize_ddp = cap >= FIRST_BUCKET
    called: Any = torch.compile(network)  # a module still, which its types do not say
    return called
