"""All tensors that a checkpoint holds, by names that no layout of the ranks changes.

"network.head.weight", "optimizer.head.weight.exp_avg", "lookahead.head.weight": a rank that
holds a tensor, or a part of it, knows it by that name.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer


def local(tensor: Tensor) -> Tensor:
    """The part of a DTensor that is on this rank; any other tensor as it is."""
    # Asked by attribute: importing DTensor takes half a second, and most runs have none.
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def tensors(
    network: nn.Module, optimizer: Optimizer, slow: Mapping[str, Tensor] | None
) -> dict[str, Tensor]:
    """The tensors of this rank: to write to them is to set the run's state.

    `slow` are look-ahead's weights. With ZeroRedundancyOptimizer those of an optimizer's state are
    of the rank's own parameters only.
    """
    found = {f"network.{name}": value for name, value in network.state_dict().items()}
    states = own(optimizer).state
    for name, parameter in network.named_parameters():
        for key, value in states.get(parameter, {}).items():
            found[f"optimizer.{name}.{key}"] = value
    return found | {f"lookahead.{name}": value for name, value in (slow or {}).items()}


def allocate(network: nn.Module, optimizer: Optimizer, names: Iterable[str]) -> None:
    """Give `optimizer`, which has not stepped yet, zeros for all states among `names`.

    A state has its parameter's shape; "step", which counts, has none.
    """
    own_optimizer = own(optimizer)
    mine = {p for group in own_optimizer.param_groups for p in group["params"]}
    parameters = dict(network.named_parameters())
    for name in names:
        if not name.startswith("optimizer."):
            continue
        parameter_name, key = name.removeprefix("optimizer.").rsplit(".", 1)
        parameter = parameters.get(parameter_name)
        if parameter is not None and parameter in mine:
            own_optimizer.state[parameter][key] = (
                torch.zeros((), device=parameter.device)
                if key == "step"
                else torch.zeros_like(parameter, requires_grad=False)
            )


def own(optimizer: Optimizer) -> Any:
    """The optimizer of this rank's parameters that a ZeroRedundancyOptimizer has inside."""
    return getattr(optimizer, "optim", optimizer)
