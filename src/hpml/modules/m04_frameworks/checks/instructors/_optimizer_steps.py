"""Exercise optimizers: the steps that are expected, and those of usual mistakes, for the hints.

Without a mistake they are torch.optim's (a test holds them to it), and made without it: its first
step imports TorchDynamo, which takes longer than the whole check.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Case = dict[str, Any]
State = dict[str, Any]
# One step of one parameter's numbers: (p, g, state, lr, options, mistake) -> p
Step = Callable[..., np.ndarray]

# Mistakes in Adam's moments, each with the key of its hint
_OF_MOMENTS = {
    "uncorrected": "uncorrected",
    "only_first": "one_correction",
    "only_second": "one_correction",
    "inside_root": "inside_root",
    "early_epsilon": "early_epsilon",
    "no_root": "no_root",
    "swapped": "swapped",
    "not_averaged": "not_averaged",
    "count_of_calls": "count_of_calls",
    "late_count": "count_from_one",
}
# By rule: mistakes, each with the key of its hint. Those that one kind of case shows are below.
OF_THE_STEP: Mapping[str, Mapping[str, str]] = {
    "NesterovSGD": {
        "plain_momentum": "plain_momentum",
        "no_momentum": "no_momentum",
        "averaged": "averaged",
        "uphill": "uphill",
        "no_decay": "no_decay",
        "beside": "decay_of_sgd",
        "after": "decay_of_sgd",
        "not_in_buffer": "decay_of_sgd",
        "halved_decay": "halved_decay",
        "forgets": "forgets",
        "shared": "shared",
    },
    "Adam": {
        **_OF_MOMENTS,
        "beside": "decoupled_adam",
        "after": "decoupled_adam",
        "no_decay": "no_decay",
        "halved_decay": "halved_decay",
        "uphill": "uphill",
        "forgets": "forgets",
        "shared": "shared",
    },
    "AdamW": {
        **_OF_MOMENTS,
        "in_gradient": "l2_in_adamw",
        "after": "decay_after",
        "without_rate": "without_rate",
        "no_decay": "no_decay",
        "uphill": "uphill",
        "forgets": "forgets",
        "shared": "shared",
    },
}
OF_GAPS = {
    "zeros": "zeros",
    "one_count": "one_count",
    "decays_anyway": "decays_anyway",
    "lost_in_gaps": "lost_in_gaps",
    "skips_zeros": "skips_zeros",
}
OF_RATES = {"first_rate": "first_rate", "rate_in_buffer": "rate_in_buffer"}
OF_MEMORY = {"keeps_gradient": "keeps_gradient"}


def nesterov(p: Any, g: Any, state: State, lr: float, options: Any, mistake: str) -> Any:
    mu, decay = options["momentum"], _decay(options, mistake)
    within = mistake not in ("beside", "after", "not_in_buffer")
    d = g + decay * p if within else g
    old = state.get("buffer", np.zeros_like(p))
    if mistake == "keeps_gradient" and state.get("steps") == 1:
        old = d  # the first buffer was the gradient's own memory, which has been filled anew
    scale = (1 - mu) if mistake == "averaged" else lr if mistake == "rate_in_buffer" else 1.0
    buffer = state["buffer"] = mu * old + scale * d
    state["steps"] = state.get("steps", 0) + 1
    ahead = d + mu * buffer
    step = {
        "plain_momentum": lr * buffer,
        "no_momentum": lr * d,
        "rate_in_buffer": lr * d + mu * buffer,
        "uphill": -lr * ahead,
        "not_in_buffer": lr * (ahead + decay * p),
    }.get(mistake, lr * ahead)
    if mistake == "beside":
        return p * (1 - lr * decay) - step
    return (p - step) * (1 - lr * decay) if mistake == "after" else p - step


def adam(p: Any, g: Any, state: State, lr: float, options: Any, mistake: str) -> Any:
    decay = _decay(options, mistake)
    if mistake == "beside":
        p = p * (1 - lr * decay)
    within = mistake not in ("beside", "after")
    p = p - _adam_step(p, g + decay * p if within else g, state, lr, options, mistake)
    return p * (1 - lr * decay) if mistake == "after" else p


def adamw(p: Any, g: Any, state: State, lr: float, options: Any, mistake: str) -> Any:
    decay = _decay(options, mistake)
    d = g + decay * p if mistake == "in_gradient" else g
    factor = 1 - decay if mistake == "without_rate" else 1 - lr * decay
    if mistake == "in_gradient":
        factor = 1.0
    p = p if mistake == "after" else p * factor
    p = p - _adam_step(p, d, state, lr, options, mistake)
    return p * factor if mistake == "after" else p


def _decay(options: Mapping[str, Any], mistake: str) -> float:
    factor = {"no_decay": 0.0, "halved_decay": 0.5}.get(mistake, 1.0)
    return factor * options["weight_decay"]


def _adam_step(
    p: Any, d: Any, state: State, lr: float, options: Mapping[str, Any], mistake: str
) -> Any:
    first, second = options["betas"] if mistake != "swapped" else options["betas"][::-1]
    eps = options["eps"]
    weights = (1.0, 1.0) if mistake == "not_averaged" else (1 - first, 1 - second)
    m = state["m"] = first * state.get("m", np.zeros_like(p)) + weights[0] * d
    v = state["v"] = second * state.get("v", np.zeros_like(p)) + weights[1] * d * d
    t = state["t"] = state.get("t", 0) + 1
    if mistake == "one_count":
        t = state["calls"]
    if mistake == "count_of_calls":
        t = state["updates"]
    if mistake == "late_count":
        t = t + 1
    c, e = 1 - first**t, 1 - second**t
    if mistake in ("uncorrected", "only_second"):
        c = 1.0
    if mistake in ("uncorrected", "only_first"):
        e = 1.0
    m, v = m / c, v / e
    if mistake == "inside_root":
        return lr * m / np.sqrt(v + eps)
    if mistake == "early_epsilon":
        return lr * m / (np.sqrt(v) + eps / e**0.5)
    if mistake == "no_root":
        return lr * m / (v + eps)
    return (-lr if mistake == "uphill" else lr) * m / (np.sqrt(v) + eps)


STEP: Mapping[str, Step] = {"NesterovSGD": nesterov, "Adam": adam, "AdamW": adamw}


def played(rule: str, case: Case, mistake: str = "") -> np.ndarray:
    """The parameters after each step of a case, worked out in float64, with this mistake or none:
    [steps, n]."""
    parameters = [np.array(each, dtype=np.float64) for each in case["parameters"]]
    states: dict[Any, State] = {}
    updates, rows = 0, []
    steps = zip(case["gradients"], case["rates"], strict=True)
    for calls, (gradients, rate) in enumerate(steps, 1):
        lr = case["rates"][0] if mistake == "first_rate" else rate
        for number, gradient in enumerate(gradients):
            p = parameters[number]
            key = p.shape if mistake == "shared" else number
            if gradient is None:
                if mistake == "decays_anyway":
                    parameters[number] = p * (1 - lr * case["options"]["weight_decay"])
                if mistake == "lost_in_gaps":
                    states.pop(key, None)
                if mistake != "zeros":
                    continue
            g = np.zeros_like(p) if gradient is None else np.array(gradient)
            if mistake == "skips_zeros" and not g.any():
                continue
            state = {} if mistake == "forgets" else states.setdefault(key, {})
            updates += 1
            state |= {"calls": calls, "updates": updates}
            parameters[number] = STEP[rule](p, g, state, lr, case["options"], mistake)
        rows.append(np.concatenate([each.reshape(-1) for each in parameters]))
    return np.stack(rows)
