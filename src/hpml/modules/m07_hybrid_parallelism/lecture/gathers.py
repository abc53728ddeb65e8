"""When `fully_shard` gathers a layer's parameters, computes with them, and scatters gradients.

On a rank: `watch_layers` before fully_shard, `watch_gathers` after it. In the parent: `events`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import nn

from hpml.ranks.evidence import RankEvidence
from hpml.ranks.rank.recorder import mark

What = Literal["gather", "forward", "backward", "scatter"]
_NAME = re.compile(r"(gather|forward|backward|scatter) of layer (\d+) (begins|ends)")


@dataclass(frozen=True)
class Event:
    """Something a rank does for a layer (counted from 0), in seconds since the launch began.

    "gather" of its parameters, "forward" and "backward" pass, "scatter" of its gradients.
    A gather lasts from the call to its completion, as the rank's ledger has it.
    """

    what: What
    layer: int
    start: float
    end: float


class _Marked(torch.autograd.Function):
    """The identity; `backward` marks."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, name: str) -> torch.Tensor:
        ctx.name = name
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        mark(ctx.name)
        return gradient, None


def watch_layers(layers: Sequence[nn.Module]) -> None:
    """On a rank: mark these layers' forward and backward passes from now on.

    Each takes one tensor and gives one. A pass back ends where its input needs a gradient.
    """
    for number, layer in enumerate(layers):

        def begin(_: nn.Module, inputs: tuple, number: int = number) -> tuple:
            mark(f"forward of layer {number} begins")
            return (_Marked.apply(inputs[0], f"backward of layer {number} ends"),)

        def end(_: nn.Module, inputs: tuple, output: torch.Tensor, number: int = number) -> Any:
            mark(f"forward of layer {number} ends")
            return _Marked.apply(output, f"backward of layer {number} begins")

        layer.register_forward_pre_hook(begin)
        layer.register_forward_hook(end)


def watch_gathers(layers: Sequence[nn.Module]) -> None:
    """On a rank: name the collectives of these layers, which fully_shard was applied to."""
    from torch.distributed.fsdp._fully_shard._fsdp_collectives import DefaultAllGather

    from hpml.modules.m07_hybrid_parallelism.lecture.reduce_scatter import PartsReduceScatter

    class Gather(DefaultAllGather):
        def __init__(self, number: int):
            self.number = number

        def __call__(self, *args: Any, **options: Any) -> Any:
            mark(f"gather of layer {self.number} begins")
            return super().__call__(*args, **options)

    class Scatter(PartsReduceScatter):
        def __init__(self, number: int):
            self.number = number

        def __call__(self, *args: Any, **options: Any) -> Any:
            mark(f"scatter of layer {self.number} begins")
            super().__call__(*args, **options)
            mark(f"scatter of layer {self.number} ends")

    for number, layer in enumerate(layers):
        layer.set_custom_all_gather(Gather(number))
        layer.set_custom_reduce_scatter(Scatter(number))


def gather_ahead(layers: Sequence[nn.Module]) -> None:
    """On a rank: from now on, gather the next layer while one computes, forward and backward.

    On GPUs fully_shard does so by itself, because gathers have a stream of their own. On CPUs a
    gather is waited for at once unless it is told otherwise.
    """
    for layer, following in pairwise(layers):
        layer.set_modules_to_forward_prefetch([following])
        following.set_modules_to_backward_prefetch([layer])
    for layer in layers:  # the only way to this option in torch 2.13
        layer._set_unshard_async_op(True)


def events(rank: RankEvidence) -> list[Event]:
    """What a rank did for the layers that were watched, in the order of beginning."""
    found = []
    begun: dict[tuple[str, str], float] = {}
    for one in rank.marks:
        if not (name := _NAME.fullmatch(one.name)):
            continue
        what: Any
        what, layer, edge = name.groups()
        if what == "gather":
            call = next(call for call in rank.calls if call.issued >= one.at)
            if call.finished is not None:
                found.append(Event("gather", int(layer), call.issued, call.finished))
        elif edge == "begins":
            begun[what, layer] = one.at
        elif (what, layer) in begun:
            found.append(Event(what, int(layer), begun.pop((what, layer)), one.at))
    return sorted(found, key=lambda event: event.start)


def times_gathered(done: Sequence[Event]) -> dict[int, int]:
    """How many times each layer was gathered, by layer."""
    layers = [one.layer for one in done if one.what == "gather"]
    return {layer: layers.count(layer) for layer in sorted(set(layers))}


def gathered_meanwhile(done: Sequence[Event]) -> int:
    """How many gathers were still under way when another layer computed."""
    passes = [one for one in done if one.what in ("forward", "backward")]
    return sum(
        any(
            other.layer != one.layer and one.start < other.end and other.start < one.end
            for other in passes
        )
        for one in done
        if one.what == "gather"
    )
