"""One training step of the course's network, in variants: what each keeps alive for backward."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

from hpml.models.residual import ResidualNetwork
from hpml.modules.m04_frameworks.lecture.live_tensors import LiveTensor, Recording, offsets, record

WAYS = ("GELU", "ReLU", "ReLU in place", "GELU, checkpointed")
BATCH = 256
MB = 1e6


class _InsteadOfGelu(TorchFunctionMode):
    """Calls of `gelu` become calls of `relu`, in place or not."""

    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self._in_place = in_place

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        if func is F.gelu:
            return F.relu(*args, inplace=self._in_place)
        return func(*args, **kwargs or {})


def recorded(way: str, batch: int = BATCH, device: str = "meta") -> Recording:
    """Forward and backward of the course's network on a made-up batch, as one of WAYS.

    "checkpointed": each stage keeps its input alone, and computes the rest again in backward (Chen
    et al. 2016, Training Deep Nets with Sublinear Memory Cost, arXiv:1604.06174). On the device
    "meta" nothing is computed, and the same is recorded as on any other.
    """
    generator = torch.Generator().manual_seed(0)
    model = ResidualNetwork().to(device)
    images = torch.randn(batch, 3, 32, 32, generator=generator).to(device)
    labels = torch.randint(0, 10, (batch,), generator=generator).to(device)

    def forward() -> torch.Tensor:
        if way != "GELU, checkpointed":
            return F.cross_entropy(model(images), labels)
        features = F.gelu(model.stem(images))
        for stage in model.stages:
            features = checkpoint(stage, features, use_reentrant=False)
        return F.cross_entropy(model.head(features.amax(dim=(2, 3))) / 9, labels)

    given = [*model.state_dict(keep_vars=True).values(), images, labels]
    if way.startswith("ReLU"):
        with _InsteadOfGelu(in_place=way.endswith("in place")):
            return record(forward, given)
    return record(forward, given)


def block(recording: Recording) -> int:
    """Bytes of one block of memory in which every tensor has its place (see `offsets`)."""
    places = offsets(recording.tensors)
    pairs = zip(places, recording.tensors, strict=True)
    return max(place + one.nbytes for place, one in pairs)


def peaks_at_turn(recording: Recording) -> bool:
    """Whether the peak is where forward turns into backward."""
    live, turn = recording.live(), recording.turn
    middles = live[turn // 2], live[(turn + len(live)) // 2]
    at_turn, peak = live[turn - 1], recording.peak
    return middles[0] < at_turn > 0.95 * peak and middles[1] < peak


class TwoBars(NamedTuple):
    """The first convolution's output, and what max pooling makes; held if the one is temporary and
    the places are twice the values."""

    held: bool
    first: LiveTensor
    values: int  # bytes
    places: int


def two_bars(recording: Recording) -> TwoBars:
    """Two bars of the picture: of a layer that is not trained, and of max pooling."""
    first = next(one for one in recording.tensors if one.operator == "convolution")
    pooled = [one for one in recording.tensors if one.operator == "max_pool2d_with_indices"]
    values, places = (one.nbytes for one in pooled[:2])
    return TwoBars(first.kind == "temporary" and places == 2 * values, first, values, places)


def table(recordings: Mapping[str, Recording]) -> str:
    """By way: what is kept for backward, the peak, and the sum of everything, in MB."""
    lines = [f"{'MB':20}{'kept for backward':>18}{'peak':>8}{'nothing freed':>15}"]
    for way, one in recordings.items():
        kept, every = one.total("kept for backward"), one.never_freed()[-1]
        lines.append(f"{way:20}{kept / MB:18.0f}{one.peak / MB:8.0f}{every / MB:15.0f}")
    return "\n".join(lines)


class InPlace(NamedTuple):
    """What ReLU keeps less than GELU, and saves in place if nothing were freed, in bytes; held if
    it keeps less, and in place has the same peak."""

    held: bool
    less: int
    saved: int


def in_place(recordings: Mapping[str, Recording]) -> InPlace:
    """What ReLU saves, and what it saves in place, of recordings by way."""
    gelu, relu, inside = (recordings[way] for way in WAYS[:3])
    less = gelu.total("kept for backward") - relu.total("kept for backward")
    saved = relu.never_freed()[-1] - inside.never_freed()[-1]
    return InPlace(less > 0 and inside.peak == relu.peak and saved > 0, less, saved)


class Checkpointing(NamedTuple):
    """Bytes of the peak that were computed again, and operators that run besides; held if the peak
    is smaller and comes in backward."""

    held: bool
    anew: int
    more: int


def checkpointing(recordings: Mapping[str, Recording]) -> Checkpointing:
    """What checkpointing saves, and what it computes again."""
    whole, again = recordings["GELU"], recordings["GELU, checkpointed"]
    more = len(again.operators) - len(whole.operators)
    anew = again.live("computed again")[again.peak_step]
    held = again.peak < 0.8 * whole.peak and again.peak_step > again.turn
    return Checkpointing(held and more > 0 and anew > 0, anew, more)
