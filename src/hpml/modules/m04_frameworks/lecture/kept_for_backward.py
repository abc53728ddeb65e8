"""One training step of the course's network, in variants: what each keeps alive for backward."""

from collections.abc import Mapping
from typing import Any

import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

from hpml.models.residual import ResidualNetwork
from hpml.modules.m04_frameworks.lecture.live_tensors import Recording, offsets, record

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


def where_it_peaks(recording: Recording) -> tuple[bool, str, str]:
    """For `conclude`: the peak is where forward turns into backward."""
    live, turn, peak = recording.live(), recording.turn, recording.peak
    kept = recording.live("kept for backward")[recording.peak_step]
    at_turn, steps = live[turn - 1], len(live)
    seen = (
        f"forward ends in step {turn - 1} of {steps} with {at_turn / MB:.0f} MB; the peak is "
        f"{peak / MB:.0f} MB, in step {recording.peak_step}"
    )
    return (
        live[turn // 2] < at_turn > 0.95 * peak and live[(turn + steps) // 2] < peak,
        f"**Answer.** At the turn: {seen}. Of the peak {kept / peak:.0%} are kept for backward. If "
        f"nothing were freed, there would be {recording.never_freed()[-1] / MB:.0f} MB at the end, "
        f"{recording.never_freed()[-1] / peak:.1f} times as much. And one block of "
        f"{block(recording) / MB:.0f} MB, planned beforehand, has room for every tensor.",
        f"{seen}: gradients, or one large layer, weigh more than what is kept.",
    )


def in_the_picture(recording: Recording) -> tuple[bool, str, str]:
    """For `conclude`: two bars: of a layer that is not trained, and of max pooling."""
    first = next(one for one in recording.tensors if one.operator == "convolution")
    pooled = [one for one in recording.tensors if one.operator == "max_pool2d_with_indices"]
    values, places = (one.nbytes for one in pooled[:2])
    return (
        first.kind == "temporary" and places == 2 * values,
        f"Two bars to look at. The output of the first convolution ({first.nbytes / MB:.0f} MB, at "
        "the left) is temporary: its filters are not trained, so backward does not come there. And "
        f"max pooling makes two tensors: the largest values, {values / MB:.0f} MB of float32, and "
        f"where they were, {places / MB:.0f} MB of int64.",
        f"the first convolution's output is {first.kind}; max pooling makes "
        f"{values / MB:.0f} and {places / MB:.0f} MB.",
    )


def table(recordings: Mapping[str, Recording]) -> str:
    """By way: what is kept for backward, the peak, and the sum of everything, in MB."""
    lines = [f"{'MB':20}{'kept for backward':>18}{'peak':>8}{'nothing freed':>15}"]
    for way, one in recordings.items():
        kept, every = one.total("kept for backward"), one.never_freed()[-1]
        lines.append(f"{way:20}{kept / MB:18.0f}{one.peak / MB:8.0f}{every / MB:15.0f}")
    return "\n".join(lines)


def in_place(recordings: Mapping[str, Recording]) -> tuple[bool, str, str]:
    """For `conclude`: what ReLU saves, and what it saves in place, of recordings by way."""
    gelu, relu, inside = (recordings[way] for way in WAYS[:3])
    less = gelu.total("kept for backward") - relu.total("kept for backward")
    every = relu.never_freed()[-1] - inside.never_freed()[-1]
    return (
        less > 0 and inside.peak == relu.peak and every > 0,
        f"**Answer.** With ReLU {less / MB:.0f} MB less are kept. GELU keeps its input; ReLU keeps "
        "its output, which the next convolution often keeps anyway. In place the peak is the same "
        f"({inside.peak / MB:.0f} MB): nobody keeps ReLU's input, so it was freed at once in any "
        f"case. Only if nothing were freed would it save something: {every / MB:.0f} MB.",
        f"ReLU kept {less / MB:.0f} MB less, and its peak is {relu.peak / MB:.0f} MB, in place "
        f"{inside.peak / MB:.0f} MB: this version of PyTorch keeps other tensors.",
    )


def checkpointing(recordings: Mapping[str, Recording]) -> tuple[bool, str, str]:
    """For `conclude`: what checkpointing saves, and what it computes again."""
    whole, again = recordings["GELU"], recordings["GELU, checkpointed"]
    more = len(again.operators) - len(whole.operators)
    anew = again.live("computed again")[again.peak_step]
    seen = (
        f"{again.total('kept for backward') / MB:.0f} MB are kept at the turn, and the peak is "
        f"{again.peak / MB:.0f} MB instead of {whole.peak / MB:.0f} MB"
    )
    return (
        again.peak < 0.8 * whole.peak and more > 0 and again.peak_step > again.turn and anew > 0,
        f"**Answer.** With checkpoints {seen}. It comes in backward now: {anew / MB:.0f} MB of it "
        f"were computed again. The price: {more} operators more than {len(whole.operators)}.",
        f"with checkpoints {seen}, and {more} operators more run.",
    )
