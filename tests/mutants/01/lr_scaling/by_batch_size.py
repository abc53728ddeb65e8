# wrong: scales by the batch of one rank
# hint: batch_only
# claim: the linear rule: k ranks, k times the rate


def scaled_rate(base_rate: float, batch_size: int, ranks: int, rule: str) -> float:
    return base_rate * batch_size


def rate_at(
    step: int, base_rate: float, batch_size: int, ranks: int, rule: str, warm_up_steps: int
) -> float:
    scaled = scaled_rate(base_rate, batch_size, ranks, rule)
    if step >= warm_up_steps:
        return scaled
    return base_rate + (scaled - base_rate) * step / warm_up_steps
