"""Exercise optimizers: the drive, which serves parameters and the gradients of twenty steps.

A case has a rule's options, its parameters with their dtypes, a learning rate and a list of
gradients for each step; None is a parameter without one. All of them are nested lists of numbers.
`plain` and `decay` have all gradients and one rate.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

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


def tensors(case: Case, values: Sequence[Any]) -> list[Any]:
    """These nested lists, one for each parameter, in its dtype; None stays."""
    dtypes = [getattr(torch, name) for name in case["dtypes"]]
    return [
        None if each is None else torch.tensor(each, dtype=dtype)
        for each, dtype in zip(values, dtypes, strict=True)
    ]


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
    parameters = [each.requires_grad_() for each in tensors(case, case["parameters"])]
    views = [each.detach() for each in parameters]
    kept = [torch.empty_like(each) for each in views]
    options = dict(case["options"])
    if "betas" in options:
        options["betas"] = tuple(options["betas"])
    optimizer = made(list(parameters), lr=case["rates"][0], **options)
    rate, after, changed, graphs = case["rates"][0], [], 0, GraphsRecorded()
    for values, now in zip(case["gradients"], case["rates"], strict=True):
        gradients = tensors(case, values)
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
