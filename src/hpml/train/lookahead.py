"""Look-ahead: slow weights follow the fast ones that the optimizer steps, and pull them back.

k steps forward, one step back: slow ← keep · slow + (1 - keep) · fast, then fast ← slow (Zhang et
al. 2019, arXiv:1907.08610). The average has a lower loss than the points that single steps reach;
Jordan 2024 (arXiv:2404.00498) needs a quarter fewer epochs with it.
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn

TIMES = 100  # in a whole training; in one of fewer steps, after each step
KEEP = 0.95**5


class Lookahead:
    """The slow weights of `network`, running statistics included."""

    def __init__(self, network: nn.Module):
        self.network, self.slow = network, copy.deepcopy(network)

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
            for slow, fast in zip(_floating(self.slow), _floating(self.network), strict=True):
                slow.lerp_(fast, 1 - keep)
                fast.copy_(slow)

    def state_dict(self) -> dict[str, Any]:
        return self.slow.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.slow.load_state_dict(state)


def _floating(network: nn.Module) -> list[Tensor]:
    return [value for value in network.state_dict().values() if value.is_floating_point()]
