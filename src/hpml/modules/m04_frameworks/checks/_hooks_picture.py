"""What the picture of an answer to gradient_hooks shows: its messages beside backward."""

from types import ModuleType
from typing import Any

from hpml.checks.kits.step_picture import BEGIN, DONE, END, beside_backward, step_picture_of

STEPS = 4
LAYERS, WIDTH, ROWS = 6, 256, 2048


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


hooks_picture = step_picture_of(
    train,
    beside_backward("messages"),
    "One step of your answer on two ranks behind links of 1 Gbit/s: six layers of 256 x 256, with "
    "a message for each weight and each bias",
)
