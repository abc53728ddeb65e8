# %%answer lr_scaling
# unusual: numpy's interpolation and roots, so that numpy scalars are returned
import numpy as np


def scaled_rate(base_rate, batch_per_rank, ranks, rule):
    global_batch = batch_per_rank * ranks
    power = {"linear": 1.0, "sqrt": 0.5}[rule]
    return base_rate * np.power(global_batch / batch_per_rank, power)


def rate_at(step, base_rate, batch_per_rank, ranks, rule, warm_up_steps):
    top = scaled_rate(base_rate, batch_per_rank, ranks, rule)
    schedule = np.linspace(base_rate, top, warm_up_steps + 1) if warm_up_steps else np.array([top])
    return schedule[np.minimum(step, warm_up_steps)]
