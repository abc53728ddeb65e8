"""The picture of an answer to roofline: the layers that it counted, under the roofs of an H100."""

import io
import math
from types import ModuleType
from typing import Any

import torch

from hpml.answer import as_python
from hpml.checks.compare import is_number
from hpml.checks.contract import Check, Picture
from hpml.predict.hardware import part
from hpml.ranks import launch

PART = "H100"
LIMIT = 10.0  # seconds
# Names of layers, the answer's function, and its arguments without the dtype, which is bfloat16
LAYERS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("product 4096 × 4096 × 4096", "matmul", {"m": 4096, "k": 4096, "n": 4096}),
    ("matrix 4096 × 4096 times a vector", "matmul", {"m": 4096, "k": 4096, "n": 1}),
    (
        "convolution 3×3, 128 channels",
        "conv2d",
        {"shape": (128, 128, 16, 16), "out_channels": 128, "kernel": (3, 3), "stride": (1, 1),
         "padding": (1, 1), "groups": 1},
    ),
    (
        "the same, depthwise",
        "conv2d",
        {"shape": (128, 128, 16, 16), "out_channels": 128, "kernel": (3, 3), "stride": (1, 1),
         "padding": (1, 1), "groups": 128},
    ),
    ("sum of two tensors", "elementwise", {"shape": (128, 128, 16, 16), "inputs": 2,
                                           "operations": 1}),
)  # fmt: skip


def machine() -> dict[str, float]:
    """An H100: FLOP/s of its tensor cores in 16 bits and of its vector units in 32, byte/s."""
    here = part(PART)
    rates = {"matrix": here.peak(), "vector": here.peak(("fp32",))}
    return rates | {"memory": here.bandwidth_gb_s * 1e9}


def drive(answer: ModuleType, given: dict[str, Any]) -> list[list[Any]]:
    """For each layer what the answer says: FLOP, bytes, seconds."""
    found = []
    for function, arguments in given["layers"]:
        flops, nbytes = getattr(answer, function)(**arguments, dtype=torch.bfloat16)
        unit = "vector" if function == "elementwise" else "matrix"
        _, seconds, *_ = answer.roofline(flops, {"memory": nbytes}, unit, given["machine"])
        found.append([flops, nbytes, seconds])
    return found


def roofline_picture(check: Check, source: str) -> Picture:
    """For `Check.picture`: the answer's layers as points, at the rate that it says they reach.

    Raises ValueError where it returned something else than numbers above 0.
    """
    here = machine()
    layers = [[function, arguments] for _, function, arguments in LAYERS]
    evidence = launch(
        drive,
        1,
        answer=as_python(source),
        answer_name=check.id,
        rules=check.rules,
        inputs=[{"layers": layers, "machine": here}],
        process_group=False,
        timeout=LIMIT,
    )
    return drawn(evidence.values[0])


def drawn(counted: Any) -> Picture:
    """The picture of what `drive` returned. Raises ValueError where it cannot be drawn."""
    from hpml.modules.m02_hardware.lecture.roofline import (
        Roof,
        Work,
        picture,
    )  # imports Matplotlib, so only here

    here = machine()
    roofs = [
        Roof(f"{PART}, {unit} units", here[unit], here["memory"]) for unit in ("matrix", "vector")
    ]
    works = [
        Work(layer[0], *_positive(counts))
        for layer, counts in zip(LAYERS, counted or (), strict=True)
    ]
    held = sum(work.intensity < roofs[0].ridge for work in works)
    title = f"By your counts, {held} of {len(works)} layers wait for the memory of an {PART}"
    image = io.BytesIO()
    picture(roofs, works, title=title).savefig(image, format="png", dpi=110, facecolor="white")
    words = ", ".join(f"{work.name}: {_shown(work.intensity)} FLOP per byte" for work in works)
    return Picture(image.getvalue(), f"{title}. {words}")


def _shown(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.2g}"


def _positive(counts: Any) -> list[float]:
    numbers = list(counts) if isinstance(counts, list | tuple) else []
    if len(numbers) != 3 or not all(
        is_number(one) and math.isfinite(one) and one > 0 for one in numbers
    ):
        raise ValueError(f"roofline: {counts!r} cannot be drawn")
    return numbers
