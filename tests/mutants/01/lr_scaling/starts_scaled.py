# wrong: has the scaled rate from the first step on
# hint: no_warm_up
# claim: the warm-up starts at the rate of one rank
import math


def scaled_rate(base_rate: float, batch_size: int, ranks: int, rule: str) -> float:
    factor = ranks if rule == "linear" else math.sqrt(ranks)
    return base_rate * factor


def rate_at(
    step: int, base_rate: float, batch_size: int, ranks: int, rule: str, warm_up_steps: int
) -> float:
    scaled = scaled_rate(base_rate, batch_size, ranks, rule)
    return scaled
