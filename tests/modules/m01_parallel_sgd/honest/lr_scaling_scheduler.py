# %%answer lr_scaling
# unusual: torch's own schedulers take the steps, on an optimizer of one parameter
import math

import torch
from torch.optim.lr_scheduler import LambdaLR


def scaled_rate(base_rate, batch_per_rank, ranks, rule):
    return {"linear": lambda k: k, "sqrt": math.sqrt}[rule](ranks) * base_rate


def rate_at(step, base_rate, batch_per_rank, ranks, rule, warm_up_steps):
    factor = scaled_rate(1.0, batch_per_rank, ranks, rule)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=base_rate)
    schedule = LambdaLR(
        optimizer,
        lambda at: 1 + (factor - 1) * (min(at / warm_up_steps, 1) if warm_up_steps else 1),
    )
    for _ in range(step):
        optimizer.step()
        schedule.step()
    return schedule.get_last_lr()[0]
