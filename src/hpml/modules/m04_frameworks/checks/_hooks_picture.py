"""The picture of an answer to gradient_hooks: its messages beside backward, on two ranks."""

import io
from types import ModuleType
from typing import Any

from hpml.answer import as_python
from hpml.checks.contract import Check, Picture
from hpml.ranks import Evidence, launch

LIMIT = 10.0  # seconds
STEPS = 4  # the quickest is drawn
LAYERS, WIDTH, ROWS = 6, 256, 2048
BEGIN, END, DONE = "backward begins", "backward ends", "finish has returned"


def hooks_picture(check: Check, source: str) -> Picture:
    """For `Check.picture`: the answer trains six equal layers, over links of 1 Gbit/s."""
    from hpml.trace.launch_timeline import timeline  # with Matplotlib
    from hpml.trace.repetition import issued_between, quickest

    evidence = launch(
        train,
        2,
        answer=as_python(source),
        answer_name=check.id,
        rules=check.rules,
        inputs=[None] * 2,
        link="1gbit",
        timeout=LIMIT,
    )
    if evidence.diagnosis is not None:
        raise ValueError(evidence.diagnosis.sentence)
    shown = quickest(evidence, since=BEGIN, until=DONE)
    calls = shown.ranks[0].calls
    early = issued_between(shown.ranks[0], BEGIN, END)
    waited = [call for call in early if call.waited is not None and call.waited <= end(shown)]
    title = f"{len(early)} of {len(calls)} messages leave while backward is at work, "
    title += f"and it waits for {len(waited) or 'none'} of them"
    image = io.BytesIO()
    timeline(shown, title=title).savefig(image, format="png", dpi=110, facecolor="white")
    words = (
        "One step of your answer on two ranks behind links of 1 Gbit/s: six layers of 256 x 256, "
        "with a message for each weight and each bias"
    )
    return Picture(image.getvalue(), words)


def end(evidence: Evidence) -> float:
    """When rank 0's backward ended."""
    return next(mark.at for mark in evidence.ranks[0].marks if mark.name == END)


def train(answer: ModuleType, given: Any) -> None:
    """On a rank."""
    import torch
    import torch.distributed as dist
    from torch import nn

    from hpml.ranks import mark

    torch.manual_seed(0)
    layers = [layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    model, batch = nn.Sequential(*layers), torch.randn(ROWS, WIDTH)
    finish = answer.hook_gradients(model)
    for _ in range(STEPS):
        model.zero_grad()
        loss = model(batch).square().mean()
        dist.barrier()
        mark(BEGIN)
        loss.backward()
        mark(END)
        finish()
        mark(DONE)
