"""What the picture of an answer to gradient_hooks shows: its messages beside backward."""

from types import ModuleType
from typing import Any

from hpml.checks.kits.step_picture import (
    beside_backward,
    square_layers,
    step_picture_of,
    take_steps,
)

LAYERS, WIDTH, ROWS = 6, 256, 2048


def train(answer: ModuleType, given: Any) -> None:
    """On a rank."""
    model = square_layers(LAYERS, WIDTH)
    take_steps(model, ROWS, WIDTH, answer.hook_gradients(model))


hooks_picture = step_picture_of(
    train,
    beside_backward("messages"),
    "One step of your answer on two ranks behind links of 1 Gbit/s: six layers of 256 x 256, with "
    "a message for each weight and each bias",
)
