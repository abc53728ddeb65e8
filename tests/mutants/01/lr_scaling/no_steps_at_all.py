# wrong: divides by warm_up_steps where there are none
# hint: raised
# claim: the linear rule: k ranks, k times the rate
import math


def scaled_rate(base_rate: float, batch_size: int, ranks: int, rule: str) -> float:
    factor = ranks if rule == "linear" else math.sqrt(ranks)
    return base_rate * factor


def rate_at(
    step: int, base_rate: float, batch_size: int, ranks: int, rule: str, warm_up_steps: int
) -> float:
    scaled = scaled_rate(base_rate, batch_size, ranks, rule)
    return base_rate + (scaled - base_rate) * min(1.0, step / warm_up_steps)
