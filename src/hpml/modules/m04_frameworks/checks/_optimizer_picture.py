"""The picture of an answer to optimizers: its paths in the lecture's valley, on torch.optim's."""

import io
import math
from types import ModuleType
from typing import Any

import torch

from hpml.answer import as_python
from hpml.checks.contract import Check, Picture
from hpml.checks.kits.drawn import Drawn
from hpml.ranks import launch

LIMIT = 10.0  # seconds
SHOWN = {"NesterovSGD": "Nesterov", "Adam": "Adam", "AdamW": "AdamW"}
OPTIONS: dict[str, dict[str, Any]] = {
    "NesterovSGD": {"momentum": 0.9, "weight_decay": 0.0},
    "Adam": {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0},
    "AdamW": {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01},
}


def walk(answer: ModuleType, given: dict[str, Any]) -> dict[str, list[list[float]]]:
    """By rule: the two weights after each step, down the valley that `given` describes."""
    found = {}
    for rule, (rate, options) in given["rules"].items():
        weights = [torch.tensor(at, dtype=torch.float64) for at in given["start"]]
        for weight in weights:
            weight.requires_grad_()
        optimizer = getattr(answer, rule)(list(weights), lr=rate, **options)
        points = []
        for _ in range(given["steps"]):
            for weight, low, steep in zip(weights, given["lowest"], given["steep"], strict=True):
                weight.grad = steep * (weight.detach() - low)
            optimizer.step()
            points.append([weight.item() for weight in weights])
        found[rule] = points
    return found


def valley_of_the_lecture() -> dict[str, Any]:
    """What `walk` is given."""
    from hpml.modules.m04_frameworks.lecture import valley

    return {
        "rules": {rule: [valley.RATES[name], OPTIONS[rule]] for rule, name in SHOWN.items()},
        "start": list(valley.START),
        "lowest": list(valley.LOWEST),
        "steep": [1.0, valley.STEEP],
        "steps": valley.STEPS,
    }


def optimizers_picture(check: Check, source: str) -> Picture:
    """For `Check.picture`. Raises ValueError where the answer raises."""
    from hpml.modules.m04_frameworks.lecture import valley
    from hpml.modules.m04_frameworks.lecture.valley_picture import valley_picture

    evidence = launch(
        walk,
        1,
        answer=as_python(source),
        answer_name=check.id,
        rules=check.rules,
        inputs=[valley_of_the_lecture()],
        process_group=False,
        timeout=LIMIT,
    )
    if evidence.diagnosis is not None:
        raise ValueError(evidence.diagnosis.sentence)
    mine, theirs = (
        {
            rule: valley.Path(rule, valley.RATES[name], _path(valley.START, points[rule]))
            for rule, name in SHOWN.items()
        }
        for points in (evidence.values[0], Drawn(__package__, check.id).pictured())
    )
    title = "Your optimizers in the valley (blue), on torch.optim's (grey)"
    image = io.BytesIO()
    figure = valley_picture(mine, title=title, against=theirs)
    figure.savefig(image, format="png", dpi=110, facecolor="white")
    words = (
        f"{title}. The valley is that of the lecture's section 4; where blue leaves the wide grey "
        "line, your step differs from torch.optim's"
    )
    return Picture(image.getvalue(), words)


def _path(start: tuple[float, float], points: Any) -> tuple[tuple[float, float], ...]:
    """What is too far away to be drawn is left out, and what comes after it."""
    path = [start]
    for first, second in points:
        if not (math.isfinite(first) and math.isfinite(second)) or abs(first) + abs(second) > 1e6:
            break
        path.append((first, second))
    return tuple(path)
