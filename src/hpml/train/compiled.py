"""The network compiled by torch.compile, where there is what that takes."""

import os
import shutil
import warnings

import torch
from torch import nn

from hpml.errors import UserError


def compiled(network: nn.Module, device: torch.device) -> nn.Module:
    """`network`, of which the first call on each shape compiles forward and backward.

    Raises UserError where a processor's code cannot be compiled: there is no C++ compiler.
    """
    wanted = os.environ.get("CXX", "g++")
    if device.type == "cpu" and not shutil.which(wanted):
        raise UserError(
            f"--compile: {wanted} is not installed, and torch.compile needs a C++ compiler: "
            "apt install g++, or conda install gxx"
        )
    # Advice for the author of the network, of which a learner can follow none.
    warnings.filterwarnings("ignore", module=r"torch\._(dynamo|inductor|functorch)")
    return torch.compile(network)
