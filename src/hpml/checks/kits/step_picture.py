"""The picture of an answer in training: what two ranks send in a step, beside their computing."""

from collections.abc import Callable
from typing import Any

from hpml.checks.contract import Check, Picture
from hpml.checks.kits.pictured import at_work, png
from hpml.ranks.evidence import Evidence

FORWARD, BEGIN = "forward begins", "backward begins"
END, DONE = "backward ends", "all have arrived"
STEPS = 4  # the quickest is drawn


def step_picture_of(
    train: Callable[..., Any],
    title: Callable[[Evidence], str],
    words: str,
    *,
    since: str = BEGIN,
    until: str = DONE,
) -> Callable[[Check, str], Picture]:
    """For `Check.picture`: `train(answer, None)` takes steps, by `take_steps`, on two ranks behind
    links of 1 Gbit/s. The quickest is drawn from one of its marks to another, below its `title`."""

    def picture(check: Check, source: str) -> Picture:
        from hpml.trace.launch_timeline import timeline  # with Matplotlib
        from hpml.trace.repetition import quickest

        evidence = at_work(check, source, train, [None] * 2, link="1gbit")
        shown = quickest(evidence, since=since, until=until)
        return Picture(png(timeline(shown, title=title(shown))), words)

    return picture


def take_steps(model: Any, rows: int, width: int, finish: Callable[[], None]) -> None:
    """On a rank: forward and backward of float32 (rows, width), then `finish()`, all marked."""
    import torch
    import torch.distributed as dist

    from hpml.ranks import mark

    batch = torch.randn(rows, width)
    for _ in range(STEPS):
        model.zero_grad()
        dist.barrier()
        mark(FORWARD)
        loss = model(batch).square().mean()
        mark(BEGIN)
        loss.backward()
        mark(END)
        finish()
        mark(DONE)


def square_layers(number: int, width: int) -> Any:
    """The same on every rank: linear layers, each with a ReLU behind it."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    layers = [layer for _ in range(number) for layer in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*layers)


def beside_backward(what: str) -> Callable[[Evidence], str]:
    """A title: how many of the messages, which are `what`, leave before rank 0's backward ends."""

    def title(shown: Evidence) -> str:
        from hpml.trace.repetition import issued_between

        rank = shown.ranks[0]
        early = issued_between(rank, BEGIN, END)
        end = next(mark.at for mark in rank.marks if mark.name == END)
        waited = [call for call in early if call.waited is not None and call.waited <= end]
        sentence = f"{len(early)} of {len(rank.calls)} {what} leave while backward is at work, "
        return sentence + f"and it waits for {len(waited) or 'none'} of them"

    return title
