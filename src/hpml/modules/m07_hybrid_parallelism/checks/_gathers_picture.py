"""What the picture of an answer to fsdp shows: its gathers and sums in one step."""

from types import ModuleType
from typing import Any

from hpml.checks.kits.step_picture import BEGIN, DONE, END, step_picture_of
from hpml.ranks.evidence import Evidence

FORWARD = "forward begins"
STEPS = 4
LAYERS, WIDTH, ROWS = 4, 384, 2048


def train(answer: ModuleType, given: Any) -> None:
    """On a rank."""
    import torch
    import torch.distributed as dist
    from torch import nn

    from hpml.ranks import mark

    torch.manual_seed(0)
    layers = [layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    model, batch = answer.FullyShard(nn.Sequential(*layers)), torch.randn(ROWS, WIDTH)
    for _ in range(STEPS):
        model.zero_grad()
        dist.barrier()
        mark(FORWARD)
        loss = model(batch).square().mean()
        mark(BEGIN)
        loss.backward()
        mark(END)
        model.synchronize()
        mark(DONE)


def title(shown: Evidence) -> str:
    rank = shown.ranks[0]
    times = {mark.name: mark.at for mark in rank.marks}
    waited = sum(
        call.finished - call.waited for call in rank.calls if call.finished and call.waited
    )
    share = waited / (times[DONE] - times[FORWARD])
    return f"{LAYERS} layers, {len(rank.calls)} calls: rank 0 waits for {share:.0%} of a step"


gathers_picture = step_picture_of(
    train,
    title,
    f"One step of your answer on two ranks behind links of 1 Gbit/s: {LAYERS} layers of {WIDTH} x "
    f"{WIDTH}, each on both ranks by half",
    since=FORWARD,
)
