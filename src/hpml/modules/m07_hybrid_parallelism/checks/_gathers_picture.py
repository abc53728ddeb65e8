"""What the picture of an answer to fsdp shows: its gathers and sums in one step."""

from types import ModuleType
from typing import Any

from hpml.checks.kits.step_picture import (
    DONE,
    FORWARD,
    square_layers,
    step_picture_of,
    take_steps,
)
from hpml.ranks.evidence import Evidence

LAYERS, WIDTH, ROWS = 4, 384, 2048


def train(answer: ModuleType, given: Any) -> None:
    """On a rank."""
    model = answer.FullyShard(square_layers(LAYERS, WIDTH))
    take_steps(model, ROWS, WIDTH, model.synchronize)


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
