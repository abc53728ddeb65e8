# wrong: takes the root of the scaled rate
# hint: root_of_all
# claim: the square-root rule: k ranks, √k times the rate
import math


def scaled_rate(base_rate: float, batch_size: int, ranks: int, rule: str) -> float:
    scaled = base_rate * ranks
    return scaled if rule == "linear" else math.sqrt(scaled)


def rate_at(
    step: int, base_rate: float, batch_size: int, ranks: int, rule: str, warm_up_steps: int
) -> float:
    scaled = scaled_rate(base_rate, batch_size, ranks, rule)
    if step >= warm_up_steps:
        return scaled
    return base_rate + (scaled - base_rate) * step / warm_up_steps
