# wrong: warms up to k times the rate, whatever the rule
# hint: to_linear
# claim: each step of the warm-up adds the same
import math


def scaled_rate(base_rate: float, batch_size: int, ranks: int, rule: str) -> float:
    factor = ranks if rule == "linear" else math.sqrt(ranks)
    return base_rate * factor


def rate_at(
    step: int, base_rate: float, batch_size: int, ranks: int, rule: str, warm_up_steps: int
) -> float:
    if step >= warm_up_steps:
        return base_rate * ranks
    return base_rate * (1 + (ranks - 1) * step / warm_up_steps)
