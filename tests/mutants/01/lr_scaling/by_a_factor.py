# wrong: multiplies at each step
# hint: factor
# claim: each step of the warm-up adds the same
import math


def scaled_rate(base_rate: float, batch_size: int, ranks: int, rule: str) -> float:
    factor = ranks if rule == "linear" else math.sqrt(ranks)
    return base_rate * factor


def rate_at(
    step: int, base_rate: float, batch_size: int, ranks: int, rule: str, warm_up_steps: int
) -> float:
    scaled = scaled_rate(base_rate, batch_size, ranks, rule)
    if step >= warm_up_steps:
        return scaled
    return base_rate * (scaled / base_rate) ** (step / warm_up_steps)
