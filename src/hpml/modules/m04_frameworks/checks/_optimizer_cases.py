"""Exercise optimizers: parameters, gradients of twenty steps, and the drive that serves them.

A case has a rule's options, its parameters, a learning rate and a list of gradients for each step;
None is a parameter without one. `plain` and `decay` have all gradients and one rate.
"""

import random
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from hpml.checks.seeds import derived

STEPS = 20
WATCHED = 2  # steps of each case in which results of torch's functions are looked at
MOST_TEXT = 300  # characters of an exception
RULES = ("NesterovSGD", "Adam", "AdamW")
CASES = ("plain", "decay", "gaps", "rates", "reused")
DESCRIBED = {
    "plain": "no weight decay",
    "decay": "weight decay",
    "gaps": "some gradients are None",
    "rates": "the learning rate changes",
    "reused": "p.grad is the same tensor in all steps",
}
Case = dict[str, Any]


@dataclass(frozen=True)
class Columns:
    """Where each parameter is in a flat row: its dtype and the slice of its numbers."""

    dtypes: tuple[torch.dtype, ...]
    slices: tuple[slice, ...]


def cases(seed: int) -> dict[str, dict[str, Case]]:
    """By rule and name of the case."""
    return {
        rule: {name: _case(derived(seed, f"{rule} {name}"), rule, name) for name in CASES}
        for rule in RULES
    }


def _case(seed: int, rule: str, name: str) -> Case:
    draw, normal = random.Random(seed), torch.Generator().manual_seed(seed)
    side = draw.randint(2, 4)
    twin = draw.randint(3, 5)
    shapes = [(side, draw.randint(1, 3)), (), (twin,), (twin,), (2, 1, draw.randint(2, 3))]
    dtypes = [torch.float32, torch.float64, torch.float32, torch.float32, torch.float64]
    if name == "reused":
        dtypes = [torch.float64] * len(shapes)

    def drawn(number: int, size: float = 1.0) -> Tensor:
        values = torch.randn(shapes[number], generator=normal, dtype=torch.float64)
        return (size * values).to(dtypes[number])

    parameters = [drawn(number) for number in range(len(shapes))]
    parameters[3] = parameters[2].clone()  # as equal as can be, and another parameter
    sizes = [draw.choice((0.1, 0.5, 2.0)) for _ in shapes]
    means = [drawn(number, 0.5) for number in range(len(shapes))]  # so that steps add up
    gradients: list[list[Tensor | None]] = [
        [means[n] * sizes[n] + drawn(n, sizes[n]) for n in range(len(shapes))] for _ in range(STEPS)
    ]
    if name == "gaps":
        late, early, never = draw.sample(range(len(shapes)), 3)
        begin, end = draw.randint(4, 6), draw.randint(12, 15)
        for step in range(STEPS):
            if step < begin:
                gradients[step][late] = None
            if begin <= step < end:
                gradients[step][early] = None
            gradients[step][never] = None
    rate = draw.uniform(0.04, 0.08)
    rates = [rate] * STEPS
    if name == "rates":
        first, second = draw.randint(5, 8), draw.randint(11, 15)
        rates = [rate * (0.3 if first <= k < second else 1.7 if k >= second else 1.0)
                 for k in range(STEPS)]  # fmt: skip
    decay = 0.0 if name in ("plain", "reused") else draw.uniform(0.3, 0.6)
    if rule == "NesterovSGD":
        options: dict[str, Any] = {"momentum": draw.uniform(0.7, 0.9), "weight_decay": decay}
    else:
        betas = [draw.uniform(0.7, 0.9), draw.uniform(0.95, 0.99)]
        options = {"betas": betas, "eps": draw.uniform(0.02, 0.05), "weight_decay": decay}
    return {
        "options": options,
        "parameters": parameters,
        "gradients": gradients,
        "rates": rates,
        "reused": name == "reused",
    }


def columns(case: Case) -> Columns:
    ends, at = [], 0
    for parameter in case["parameters"]:
        ends.append(slice(at, at + parameter.numel()))
        at += parameter.numel()
    return Columns(tuple(p.dtype for p in case["parameters"]), tuple(ends))


def in_a_row(tensors: list[Tensor]) -> Tensor:
    """All numbers of the tensors, as float64 [n]."""
    return torch.cat([each.detach().double().reshape(-1) for each in tensors])


def drive(answer: ModuleType, inputs: Mapping[str, Mapping[str, Case]]) -> dict[str, Any]:
    """What each rule's class makes of each case, or the exception that ended it: one class that is
    not written yet does not keep the others from being judged, unless none is written."""
    unwritten: list[NotImplementedError] = []
    found: dict[str, Any] = {}
    for rule, some in inputs.items():
        found[rule] = {}
        for name, case in some.items():
            try:
                found[rule][name] = take_steps(getattr(answer, rule), case)
            except Exception as error:
                if "NotAllowed" in [kind.__name__ for kind in type(error).__mro__]:
                    raise  # the runner knows which line it was
                if isinstance(error, NotImplementedError):
                    unwritten.append(error)
                trace, line = error.__traceback__, 0
                while trace is not None:
                    if trace.tb_frame.f_code.co_filename == answer.__file__:
                        line = trace.tb_lineno
                    trace = trace.tb_next
                text = f"{type(error).__name__}: {error}"[:MOST_TEXT]
                found[rule][name] = {"raised": text, "line": line}
    if len(unwritten) == sum(map(len, inputs.values())):
        raise unwritten[0]
    return found


class GraphsRecorded(TorchFunctionMode):
    """Counts the results of torch's functions that autograd has recorded."""

    def __init__(self) -> None:
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.count += isinstance(result, torch.Tensor) and result.grad_fn is not None
        return result


def take_steps(made: Any, case: Case) -> dict[str, Any]:
    """Parameters after each step [STEPS, n]; at the end the views of their memory [n]; how many
    gradients were changed by a step; and how many results of the first steps have a graph."""
    parameters = [each.clone().requires_grad_() for each in case["parameters"]]
    views = [each.detach() for each in parameters]
    kept = [torch.empty_like(each) for each in views]
    options = dict(case["options"])
    if "betas" in options:
        options["betas"] = tuple(options["betas"])
    optimizer = made(list(parameters), lr=case["rates"][0], **options)
    rate, after, changed, graphs = case["rates"][0], [], 0, GraphsRecorded()
    for gradients, now in zip(case["gradients"], case["rates"], strict=True):
        if now != rate:
            optimizer.lr = rate = now
        for parameter, memory, gradient in zip(parameters, kept, gradients, strict=True):
            if gradient is None:
                parameter.grad = None
            elif case["reused"]:
                parameter.grad = memory.copy_(gradient)
            else:
                parameter.grad = gradient.clone()
        with graphs if len(after) < WATCHED else nullcontext():
            optimizer.step()
        for parameter, gradient in zip(parameters, gradients, strict=True):
            if gradient is not None:
                same = parameter.grad is not None and torch.equal(parameter.grad, gradient)
                changed += not same
        after.append(in_a_row(parameters))
    return {
        "after": torch.stack(after),
        "views": in_a_row(views),
        "changed": changed,
        "graphs": graphs.count,
    }
