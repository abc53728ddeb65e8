"""The same layers by different engines: PyTorch's own loops, oneDNN, and oneDNN's favourite layout.

As `caffe time` printed them for two engines (Jia et al. 2014, Caffe): each layer forward and
backward, and the sum.
"""

import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from hpml.measure.clock import with_threads
from hpml.modules.m02_hardware.lecture.layers import Layer, layers


@dataclass(frozen=True)
class Engine:
    """With oneDNN or without, and the order in memory of images and filters."""

    onednn: bool
    layout: torch.memory_format


ENGINES = {
    "without oneDNN": Engine(False, torch.contiguous_format),
    "with oneDNN": Engine(True, torch.contiguous_format),
    "and channels_last": Engine(True, torch.channels_last),
}
KINDS = ("convolution", "pooling", "normalisation", "the rest")


@contextlib.contextmanager
def onednn(enabled: bool) -> Iterator[None]:
    """PyTorch uses oneDNN (once MKL-DNN), or does not; afterwards as before."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="TF32 acceleration")  # of GPUs; none is asked for
        with torch.backends.mkldnn.flags(enabled=enabled):
            yield


def compare(model: nn.Module, images: Tensor, rounds: int = 3) -> dict[str, list[Layer]]:
    """The layers of `model` on `images` [B, C, H, W], by each of ENGINES, on one thread.

    The quickest of `rounds`, in which the engines take turns. The model is contiguous afterwards.
    """
    found: dict[str, list[Layer]] = {}
    with with_threads(1):
        for _ in range(rounds):
            for name, engine in ENGINES.items():
                model.to(memory_format=engine.layout)
                with onednn(engine.onednn):
                    given = images.contiguous(memory_format=engine.layout)
                    rows = layers(model, given, rounds=1)
                found[name] = _quicker(found.get(name, rows), rows)
    model.to(memory_format=torch.contiguous_format)
    return found


def _quicker(rows: Sequence[Layer], others: Sequence[Layer]) -> list[Layer]:
    """Of each layer the quicker forward pass and the quicker backward pass."""
    return [
        replace(
            one,
            forward=min(one.forward, other.forward, key=lambda run: run.seconds),
            backward=min(one.backward, other.backward, key=lambda run: run.seconds),
        )
        for one, other in zip(rows, others, strict=True)
    ]


def kind(layer: Layer) -> str:
    """One of KINDS."""
    names = {"conv": KINDS[0], "pool": KINDS[1], "norm": KINDS[2], "amax": KINDS[1]}
    return next((k for part, k in names.items() if part in layer.kind.lower()), KINDS[3])


def seconds(rows: Sequence[Layer], of: str | None = None) -> tuple[float, float]:
    """Forward and backward, of all layers or of those of a kind."""
    chosen = [row for row in rows if of is None or kind(row) == of]
    return sum(row.forward.seconds for row in chosen), sum(row.backward.seconds for row in chosen)


def table(measured: Mapping[str, Sequence[Layer]]) -> str:
    """Milliseconds of each layer forward and backward, the engines side by side, the sum below."""
    head = "".join(f"{name:>22}" for name in measured)
    under = f"{'forward':>12}{'backward':>10}" * len(measured)
    lines = [f"{'':28}{head}", f"{'layer, ms':28}{under}"]
    for rows in zip(*measured.values(), strict=True):
        times = (f"{r.forward.seconds * 1e3:12.2f}{r.backward.seconds * 1e3:10.2f}" for r in rows)
        lines.append(f"{rows[0].name:28}{''.join(times)}")
    sums = (
        f"{ahead * 1e3:12.2f}{back * 1e3:10.2f}" for ahead, back in map(seconds, measured.values())
    )
    return "\n".join([*lines, f"{'all layers':28}{''.join(sums)}"])


def finding(measured: Mapping[str, Sequence[Layer]]) -> tuple[bool, str, str]:
    """What `hpml.publish.conclude` takes: what the library and the layout gain, on the sum."""
    off, on, last = (sum(seconds(rows)) for rows in measured.values())
    convolutions, pooling = (
        [1e3 * sum(seconds(rows, of)) for rows in measured.values()] for of in KINDS[:2]
    )
    gains = {}
    for of in KINDS:
        _, before, after = (1e3 * sum(seconds(rows, of)) for rows in measured.values())
        gains[of] = before, after
    gained = [
        f"{of} {before:.0f} ms to {after:.0f} ms"
        for of, (before, after) in sorted(gains.items(), key=lambda one: one[1][1] - one[1][0])
        if round(before) > round(after)
    ]
    seen = (
        f"All layers together take {1e3 * off:.0f} ms without oneDNN, {1e3 * on:.0f} ms with it, "
        f"and {1e3 * last:.0f} ms with channels_last"
    )
    sentence = (
        f"**Answer.** {seen}: {off / last:.1f} times as fast on the same processor. oneDNN gains "
        f"in convolutions: {convolutions[0]:.0f} ms become {convolutions[1]:.0f} ms. The layout "
        f"gains, too: {'; '.join(gained)}. Pooling gains the largest factor, as the channels of a "
        "pixel are neighbours and fill a register."
    )
    held = (
        off > 1.3 * on
        and off > 1.5 * last
        and convolutions[0] > 1.3 * convolutions[1]
        and pooling[1] > 1.5 * pooling[2]
        and max(gains, key=lambda of: gains[of][0] / max(gains[of][1], 1e-9)) == KINDS[1]
    )
    return held, sentence, f"{seen}. Another processor, or another version, has other kernels."
