"""What the picture of an answer to ddp shows: when its buckets leave, beside backward."""

from types import ModuleType
from typing import Any

from hpml.checks.kits.step_picture import (
    beside_backward,
    square_layers,
    step_picture_of,
    take_steps,
)

LAYERS, WIDTH, ROWS = 6, 256, 2048
BUCKET = 2 * 4 * (WIDTH * WIDTH + WIDTH)  # bytes: the gradients of two layers


def train(answer: ModuleType, given: Any) -> None:
    """On a rank."""
    model = answer.DataParallel(square_layers(LAYERS, WIDTH), bucket_bytes=BUCKET)
    take_steps(model, ROWS, WIDTH, model.synchronize)


buckets_picture = step_picture_of(
    train,
    beside_backward("buckets"),
    "One step of your answer on two ranks behind links of 1 Gbit/s: six layers of 256 x 256, and "
    "buckets that hold the gradients of two",
)
