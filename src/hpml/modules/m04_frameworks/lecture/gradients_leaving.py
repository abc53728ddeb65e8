"""When gradients leave: a chain of equal layers, and what its ledger shows."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
import torch.distributed as dist
from torch import nn

from hpml.ranks import mark
from hpml.ranks.evidence import Call, Evidence
from hpml.trace.repetition import quickest

LAYERS, WIDTH, ROWS = 6, 512, 1024
BEGIN, END, AVERAGED = "backward begins", "backward ends", "averaged"


def equal_layers(rank: int) -> tuple[nn.Module, torch.Tensor]:
    """Six layers of 512 x 512 without a bias, the same on all ranks, and a batch of the rank's own,
    float32 (1024, 512): six gradients of 1 MiB, and six equal pieces of work."""
    torch.manual_seed(0)
    layers = [nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)]
    torch.manual_seed(1 + rank)
    return nn.Sequential(*layers), torch.randn(ROWS, WIDTH)


def each_backward(model: nn.Module, batch: torch.Tensor, steps: int = 3) -> Iterator[None]:
    """On a rank: yields whenever backward has ended, for the caller to average the gradients; sets
    the marks BEGIN, END and AVERAGED."""
    for _ in range(steps):
        loss = model(batch).square().mean()
        dist.barrier()
        mark(BEGIN)
        loss.backward()
        mark(END)
        yield
        mark(AVERAGED)
        model.zero_grad()


@dataclass(frozen=True)
class Step:
    """Rank 0 in one step. Times are seconds since its backward began."""

    ended: float  # backward
    averaged: float  # all gradients
    calls: tuple[Call, ...]

    @property
    def wait(self) -> float:
        """Seconds from the end of backward until all gradients are averaged."""
        return self.averaged - self.ended

    @property
    def left(self) -> list[Call]:
        """The messages that left while backward was at work."""
        return [call for call in self.calls if call.issued <= self.ended]

    @property
    def arrived(self) -> list[Call]:
        """The messages that had arrived when backward ended."""
        return [call for call in self.calls if (call.finished or self.averaged) <= self.ended]


def quickest_step(evidence: Evidence) -> Step:
    """The quickest step of a launch whose drive sets the marks BEGIN, END and AVERAGED.

    Raises ValueError where a rank lacks one of the marks.
    """
    rank = quickest(evidence, since=BEGIN, until=AVERAGED).ranks[0]
    at = {one.name: one.at for one in rank.marks}
    begin = at[BEGIN]
    calls = [call for call in rank.calls if call.operation == "all_reduce"]
    since = [
        replace(
            call,
            issued=call.issued - begin,
            finished=None if call.finished is None else call.finished - begin,
        )
        for call in calls
    ]
    return Step(at[END] - begin, at[AVERAGED] - begin, tuple(since))


def hidden(plain: Step, hooked: Step) -> bool:
    """Whether the plain way sends nothing before backward ends, and hooks send everything, so that
    some of it has arrived and the rank waits less."""
    return (
        not plain.left
        and len(hooked.left) == len(hooked.calls)
        and len(hooked.arrived) > 0
        and hooked.wait < plain.wait
    )
