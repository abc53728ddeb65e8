# %%answer zero1
# unusual: what an owner has updated is sent as one flat buffer, as DeepSpeed does
from collections.abc import Iterable

import torch
import torch.distributed as dist


class ZeroOptimizer:
    """An optimizer whose states are spread over the ranks: each parameter is updated by one.

    `params` are parameters, or groups: dicts with `params` and options. `optimizer_class` is a
    class of torch.optim, and `defaults` are its keyword arguments. `param_groups` is a list of
    dicts, as a plain optimizer has it, with all parameters.
    """

    def __init__(self, params: Iterable, optimizer_class: type, **defaults) -> None:
        self.make = lambda group: optimizer_class([group], **defaults)
        self.own = None  # this rank's optimizer
        self.param_groups: list[dict] = []
        self.owner: dict[torch.Tensor, int] = {}
        self.bytes_of = [0] * dist.get_world_size()
        groups = list(params)
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, group: dict) -> None:
        """Add a group: `params` and options. Those that it does not have are `defaults`."""
        params = list(group["params"])
        for parameter in params:
            owner = self.bytes_of.index(min(self.bytes_of))
            self.owner[parameter] = owner
            self.bytes_of[owner] += parameter.numel() * parameter.element_size()
        mine = {**group, "params": [p for p in params if self.owner[p] == dist.get_rank()]}
        if self.own is None:
            self.own = self.make(mine)
        else:
            self.own.add_param_group(mine)
        # With all options, also those that the class has filled in
        self.param_groups.append({**self.own.param_groups[-1], "params": params})

    def zero_grad(self) -> None:
        """Every parameter's `grad` is None afterwards."""
        for parameter in self.owner:
            parameter.grad = None

    def step(self) -> None:
        """Update all parameters, on all ranks: each by its owner. One without `grad` stays."""
        for mine, group in zip(self.own.param_groups, self.param_groups, strict=True):
            mine.update({key: value for key, value in group.items() if key != "params"})
        self.own.step()
        for rank in range(dist.get_world_size()):
            for dtype in dict.fromkeys(parameter.dtype for parameter in self.owner):
                owned = [
                    parameter.detach()
                    for parameter, owner in self.owner.items()
                    if owner == rank and parameter.dtype == dtype
                ]
                if owned:
                    flat = torch.cat([parameter.flatten() for parameter in owned])
                    dist.broadcast(flat, src=rank)
                    parts = flat.split([parameter.numel() for parameter in owned])
                    for parameter, part in zip(owned, parts, strict=True):
                        parameter.copy_(part.view_as(parameter))

    def gathered_state_dict(self) -> dict | None:
        """On rank 0, the plain optimizer's `state_dict()`, elsewhere None. Call it on all ranks."""
        number = {parameter: n for n, parameter in enumerate(self.owner)}
        mine = {number[parameter]: state for parameter, state in self.own.state.items()}
        parts = [None] * dist.get_world_size() if dist.get_rank() == 0 else None
        dist.gather_object(mine, parts, dst=0)
        if parts is None:
            return None
        return {
            "state": {n: state for part in parts for n, state in part.items()},
            "param_groups": [
                {**group, "params": [number[parameter] for parameter in group["params"]]}
                for group in self.param_groups
            ],
        }
