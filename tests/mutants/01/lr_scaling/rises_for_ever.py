# wrong: does not stop at the end of the warm-up
# hint: goes_on
# claim: after the warm-up the scaled rate stays
import math


def scaled_rate(base_rate: float, batch_size: int, ranks: int, rule: str) -> float:
    factor = ranks if rule == "linear" else math.sqrt(ranks)
    return base_rate * factor


def rate_at(
    step: int, base_rate: float, batch_size: int, ranks: int, rule: str, warm_up_steps: int
) -> float:
    scaled = scaled_rate(base_rate, batch_size, ranks, rule)
    return base_rate + (scaled - base_rate) * step / max(warm_up_steps, 1)
