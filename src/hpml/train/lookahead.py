"""Look-ahead: slow weights follow the fast ones that the optimizer steps, and pull them back.

k steps forward, one step back: slow ← keep · slow + (1 - keep) · fast, then fast ← slow (Zhang et
al. 2019, arXiv:1907.08610). The average has a lower loss than the points that single steps reach;
Jordan 2024 (arXiv:2404.00498) needs a quarter fewer epochs with it.
"""

import torch
from torch import Tensor, nn

from hpml.train.state import local

TIMES = 100  # in a whole training; in one of fewer steps, after each step
KEEP = 0.95**5


class Lookahead:
    """The slow weights of `network` by name, running statistics included."""

    def __init__(self, network: nn.Module):
        self.network = network
        self.slow = {name: fast.detach().clone() for name, fast in _floating(network).items()}

    def step(self, before: float, after: float) -> None:
        """A step of the optimizer went from `before` to `after`, shares of the training done.

        `keep` grows with the third power of that share: at first the weights have far to go. It
        depends on the share alone, so that stopping or another number of ranks changes nothing.
        """
        times = int(TIMES * after) - int(TIMES * before)
        if times == 0:
            return
        keep = KEEP**times * after**3
        with torch.no_grad():
            for name, fast in _floating(self.network).items():
                slow = local(self.slow[name])
                slow.lerp_(local(fast), 1 - keep)
                local(fast).copy_(slow)


def _floating(network: nn.Module) -> dict[str, Tensor]:
    return {n: value for n, value in network.state_dict().items() if value.is_floating_point()}
