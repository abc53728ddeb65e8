"""LAMB: Adam's step, made as long in each layer as a share of that layer's weights."""

from collections.abc import Iterable
from typing import Any

import torch

from hpml.frameworks.lars import ratio


class LAMB(torch.optim.Optimizer):
    """w ← w − γ ‖w‖ / ‖u‖ u, with u = m̂ / (√v̂ + ε) + λ w, for each parameter.

    m ← β₁ m + (1 − β₁) g and v ← β₂ v + (1 − β₂) g², elementwise; m̂ = m / (1 − β₁ᵗ) and
    v̂ = v / (1 − β₂ᵗ), as in Adam. γ is `lr`, β₁ and β₂ `betas`, ε `eps`, λ `weight_decay`. You et
    al. 2020, Large batch optimization for deep learning: training BERT in 76 minutes (ICLR;
    arXiv:1904.00962), algorithm 2, with φ(‖w‖) = ‖w‖. ‖w‖ / ‖u‖ is taken as 1 where either norm is
    zero.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ):
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, options)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Update every parameter that has a gradient."""
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state.update(step=0, exp_avg=torch.zeros_like(p))
                    state["exp_avg_sq"] = torch.zeros_like(p)
                state["step"] += 1
                m, v = state["exp_avg"], state["exp_avg_sq"]
                m.mul_(beta1).add_(p.grad, alpha=1 - beta1)
                v.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                m_hat, v_hat = m / (1 - beta1 ** state["step"]), v / (1 - beta2 ** state["step"])
                update = m_hat / (v_hat.sqrt() + group["eps"]) + group["weight_decay"] * p
                p.sub_(update, alpha=group["lr"] * ratio(p, update))
