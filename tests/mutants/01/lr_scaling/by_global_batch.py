# wrong: scales by the number of samples in the global batch
# hint: batch
# claim: the linear rule: k ranks, k times the rate
import math


def scaled_rate(base_rate: float, batch_size: int, ranks: int, rule: str) -> float:
    samples = batch_size * ranks
    return base_rate * (samples if rule == "linear" else math.sqrt(ranks) * batch_size)


def rate_at(
    step: int, base_rate: float, batch_size: int, ranks: int, rule: str, warm_up_steps: int
) -> float:
    scaled = scaled_rate(base_rate, batch_size, ranks, rule)
    if step >= warm_up_steps:
        return scaled
    return base_rate + (scaled - base_rate) * step / warm_up_steps
