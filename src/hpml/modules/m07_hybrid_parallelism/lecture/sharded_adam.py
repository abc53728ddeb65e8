"""Adam in mixed precision whose states, and then gradients, are sharded: ZeRO, stages 0 to 2."""

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

BETAS, EPSILON = (0.9, 0.999), 1e-8


class ShardedAdam(torch.optim.Optimizer):
    """Adam (Kingma and Ba 2015) on 16-bit parameters, which are the same on all ranks at first.

    A rank updates its part of each parameter and keeps that part's states: a float32 copy
    ("master") and two moments, 12 bytes for each of its numbers. Then the ranks gather the parts.
    Gradients are averaged over the ranks.

    `stage` is that of ZeRO (Rajbhandari et al. 2020, section 5): with 0 a rank's part is all; with
    1 gradients stay whole until `step`; with 2 each is reduced to the rank's part, and freed, as
    soon as `backward` has made it. Parameters that do not divide by the ranks are not split.
    Call `backward` once before each `step`. Raises ValueError for another stage.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], stage: int, lr: float = 1e-3):
        if stage not in range(3):
            raise ValueError(f"stage {stage}: this optimizer has 0, 1 and 2")
        self._whole = list(parameters)
        parts = []
        for parameter in self._whole:
            flat = parameter.data.view(-1)
            split = stage > 0 and flat.numel() % dist.get_world_size() == 0
            mine = flat.chunk(dist.get_world_size())[dist.get_rank()] if split else flat
            parts.append(nn.Parameter(mine))  # a view, so that writing to it writes the parameter
        super().__init__(parts, {"lr": lr})
        self._part_of = dict(zip(self._whole, parts, strict=True))
        self._steps = 0
        if stage == 2:
            for parameter in self._whole:
                parameter.register_post_accumulate_grad_hook(self._reduce)

    @torch.no_grad()
    def _reduce(self, parameter: nn.Parameter) -> None:
        """The mean gradient of this rank's part takes the place of the whole one."""
        gradient, part, ranks = parameter.grad, self._part_of[parameter], dist.get_world_size()
        parameter.grad = None
        if part.numel() == gradient.numel():
            dist.all_reduce(gradient)
            part.grad = (gradient / ranks).view(-1)
            return
        # Gloo's reduce_scatter_single is an all-reduce, and sends twice as much
        arriving = torch.empty_like(gradient).view(-1)
        dist.all_to_all_single(arriving, gradient.contiguous().view(-1))
        part.grad = arriving.view(ranks, -1).mean(dim=0)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Update this rank's parts, gather the others'."""
        self._steps += 1
        lr = self.param_groups[0]["lr"]
        for parameter in self._whole:
            if parameter.grad is not None:
                self._reduce(parameter)
            part = self._part_of[parameter]
            if part.grad is None:
                continue
            self._update(part, lr)
            part.grad = None
            if part.numel() < parameter.numel():
                dist.all_gather_single(parameter.data.view(-1), part.data.clone())

    def _update(self, part: Tensor, lr: float) -> None:
        state = self.state[part]
        if not state:
            state["master"] = part.data.float()
            state["mean"], state["square"] = (torch.zeros_like(state["master"]) for _ in range(2))
        gradient = part.grad.float()
        state["mean"].lerp_(gradient, 1 - BETAS[0])
        state["square"].mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        mean = state["mean"] / (1 - BETAS[0] ** self._steps)
        root = (state["square"] / (1 - BETAS[1] ** self._steps)).sqrt_().add_(EPSILON)
        state["master"].addcdiv_(mean, root, value=-lr)
        part.data.copy_(state["master"])
