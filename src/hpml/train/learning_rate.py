"""The learning rate: how it follows the number of ranks, and how it changes as training goes on."""

import math
from collections.abc import Callable

# By how much the rate of one rank is raised on W ranks: a step averages over W times as many images
RULES: dict[str, Callable[[int], float]] = {
    "none": lambda world_size: 1.0,
    "sqrt": math.sqrt,  # keeps the variance of a step: Hoffer et al. 2017, arXiv:1705.08741
    "linear": float,  # keeps the way per image: Goyal et al. 2017, arXiv:1706.02677, section 2.1
}
START, END = 0.2, 0.07  # of the highest rate (Jordan 2024, arXiv:2404.00498)


def shape(progress: float, warmup: float) -> float:
    """Share of the highest rate at `progress`, the share of the training done, in [0, 1].

    Rises in a straight line from START over the first `warmup`, then falls in one to END. Warm-up
    keeps training at scaled-up rates stable at first (Goyal et al. 2017, section 2.2).
    """
    if progress < warmup:
        return START + (1 - START) * progress / warmup
    return 1 - (1 - END) * (progress - warmup) / max(1 - warmup, 1e-9)
