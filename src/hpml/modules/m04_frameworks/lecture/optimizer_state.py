"""What optimizers remember, counted: the bytes of their state on the course's network."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from matplotlib.figure import Figure
from torch import nn

from hpml.models.residual import ResidualNetwork
from hpml.modules.m04_frameworks.lecture.valley import RULES
from hpml.predict.draw import COLOURS
from hpml.trace.launch_timeline import HATCHES


@dataclass(frozen=True)
class State:
    """The bytes that one rule keeps between steps, for `parameters` numbers of float32.

    `tensors`: bytes by the name that the optimizer gives them, over all parameters.
    """

    parameters: int
    tensors: Mapping[str, int]

    @property
    def nbytes(self) -> int:
        """Of all tensors."""
        return sum(self.tensors.values())

    @property
    def per_parameter(self) -> float:
        """Bytes for each number that is trained."""
        return self.nbytes / self.parameters


def count(rule: str, model: nn.Module) -> State:
    """The state of one of `RULES` after one step on `model`, whose gradients are zeros."""
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = RULES[rule](trained, 0.0)
    for p in trained:
        p.grad = torch.zeros_like(p)
    optimizer.step()
    optimizer.zero_grad()
    tensors: dict[str, int] = {}
    for state in optimizer.state.values():
        for name, kept in state.items():
            if isinstance(kept, torch.Tensor):
                tensors[name] = tensors.get(name, 0) + kept.nbytes
    return State(sum(p.numel() for p in trained), tensors)


def counted() -> dict[str, State]:
    """The state of each of `RULES` on the course's network, by name."""
    model = ResidualNetwork()
    return {rule: count(rule, model) for rule in RULES}


def state_picture(found: Mapping[str, State], *, title: str = "") -> Figure:
    """A bar for each rule: bytes per parameter, of the parameter, its gradient, and each tensor of
    the state that needs a byte for each hundred parameters or more."""
    figure = Figure(figsize=(9, 0.9 + 0.36 * len(found)), layout="constrained")
    axes = figure.subplots()
    large = [
        name
        for state in found.values()
        for name, nbytes in state.tensors.items()
        if nbytes >= 0.01 * state.parameters
    ]
    parts = ["parameter", "gradient", *dict.fromkeys(large)]
    left = dict.fromkeys(found, 0.0)
    for number, part in enumerate(parts):
        widths = {
            rule: 4.0 if number < 2 else state.tensors.get(part, 0) / state.parameters
            for rule, state in found.items()
        }
        axes.barh(
            list(found),
            list(widths.values()),
            left=list(left.values()),
            color=("#d9d9d9", "#a6a6a6")[number] if number < 2 else COLOURS[number - 2],
            hatch="" if number < 2 else HATCHES[number % len(HATCHES)],
            edgecolor="white",
            label=part,
        )
        left = {rule: left[rule] + widths[rule] for rule in found}
    axes.invert_yaxis()
    axes.set(xlabel="bytes for each parameter (float32)", xticks=range(0, 20, 4), xlim=(0, 16.5))
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=9, frameon=False)
    axes.set_title(title, loc="left", fontsize=10)
    return figure
