# wrong: takes base_rate for one per 256 samples, as in the paper
# hint: of_256
# claim: the linear rule: k ranks, k times the rate
import math


def scaled_rate(base_rate: float, batch_size: int, ranks: int, rule: str) -> float:
    factor = batch_size * ranks / 256
    return base_rate * (factor if rule == "linear" else math.sqrt(ranks) * batch_size / 256)


def rate_at(
    step: int, base_rate: float, batch_size: int, ranks: int, rule: str, warm_up_steps: int
) -> float:
    scaled = scaled_rate(base_rate, batch_size, ranks, rule)
    if step >= warm_up_steps:
        return scaled
    return base_rate + (scaled - base_rate) * step / warm_up_steps
