"""What the picture of an answer to ddp shows: when its buckets leave, beside backward."""

from types import ModuleType
from typing import Any

from hpml.checks.kits.step_picture import BEGIN, DONE, END, beside_backward, step_picture_of

STEPS = 4
LAYERS, WIDTH, ROWS = 6, 256, 2048
BUCKET = 2 * 4 * (WIDTH * WIDTH + WIDTH)  # bytes: the gradients of two layers


def train(answer: ModuleType, given: Any) -> None:
    """On a rank."""
    import torch
    import torch.distributed as dist
    from torch import nn

    from hpml.ranks import mark

    torch.manual_seed(0)
    layers = [layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    model = answer.DataParallel(nn.Sequential(*layers), bucket_bytes=BUCKET)
    batch = torch.randn(ROWS, WIDTH)
    for _ in range(STEPS):
        model.zero_grad()
        loss = model(batch).square().mean()
        dist.barrier()
        mark(BEGIN)
        loss.backward()
        mark(END)
        model.synchronize()
        mark(DONE)


buckets_picture = step_picture_of(
    train,
    beside_backward("buckets"),
    "One step of your answer on two ranks behind links of 1 Gbit/s: six layers of 256 x 256, and "
    "buckets that hold the gradients of two",
)
