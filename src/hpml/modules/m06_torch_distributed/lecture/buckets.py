"""From gradients to buckets to all-reduces: which gradients travel together, and when.

Backward reaches the last layer first, so gradients are dealt to buckets from the last parameter to
the first (Li et al. 2020, PyTorch Distributed: Experiences on Accelerating Data Parallel Training,
section 3.2.3).
"""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle
from torch import nn

from hpml.trace.launch_timeline import HATCHES
from hpml.trace.layout import tint

NARROW, SHORT = 0.09, 0.16  # of all bytes: with less there is no room for a name, for a size


def gradient_bytes(model: nn.Module) -> dict[str, int]:
    """Bytes of each trained parameter's gradient by name, in the order in which backward has them:
    the last parameter first."""
    trained = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    return {name: p.numel() * p.element_size() for name, p in reversed(trained)}


def deal(gradients: Mapping[str, int], bucket_bytes: int) -> list[list[str]]:
    """The names in each bucket: gradients in their order, as long as they fit into `bucket_bytes`.

    A bucket never exceeds that, except for one gradient alone that is larger. PyTorch's DDP closes
    a bucket with the gradient that brings it to its limit or beyond
    (`compute_bucket_assignment_by_size` in torch/csrc/distributed/c10d/reducer.cpp).
    """
    buckets: list[list[str]] = []
    room = 0
    for name, nbytes in gradients.items():
        if not buckets or nbytes > room:
            buckets.append([])
            room = bucket_bytes
        buckets[-1].append(name)
        room -= nbytes
    return buckets


def bucket_picture(model: nn.Module, bucket_bytes: int, *, title: str = "") -> Figure:
    """Gradients in the order of backward, the buckets they are dealt to, one all-reduce for each.

    To the right is time, as bytes of gradients that backward makes in it. A bucket's all-reduce
    begins when its last gradient is ready and the one before it has left; it is drawn as long as
    its bytes, as if sending took as long as computing. Right of the dashed line, where backward has
    ended, nothing hides it. Raises ValueError for a model with nothing to train.
    """
    gradients = gradient_bytes(model)
    if not gradients:
        raise ValueError("the model has no parameter that is trained: there is nothing to send")
    buckets = deal(gradients, bucket_bytes)
    sizes = [sum(gradients[name] for name in bucket) for bucket in buckets]
    total = sum(sizes)
    spans = all_reduce_spans(sizes)
    unit, name_of_unit = (1e6, "MB") if total >= 1e6 else (1e3, "kB")
    figure = Figure(figsize=(9, 3.1), layout="constrained")
    axes = figure.subplots()
    axes.set(xlim=(0, 1.01 * spans[-1][1] / unit), ylim=(3.0, -0.25), yticks=[0.5, 1.5, 2.5])
    axes.set_yticklabels(["gradients", "buckets", "all-reduces"])
    begin = 0.0
    for number, bucket in enumerate(buckets):
        at = begin
        for name in bucket:
            words = name if gradients[name] > NARROW * total else ""
            _box(axes, (at, at + gradients[name]), 0.15, number, words, unit)
            at += gradients[name]
        size = (
            f": {sizes[number] / unit:.1f} {name_of_unit}" if sizes[number] > SHORT * total else ""
        )
        words = f"{number + 1}{size}"
        _box(axes, (begin, at), 1.15, number, words, unit, thick=True)
        _box(axes, spans[number], 2.15, number, f"{number + 1}", unit)
        _arrow(axes, at / unit, spans[number][0] / unit)
        begin = at
    axes.axvline(total / unit, color="black", linestyle="--", linewidth=1)
    axes.text(total / unit, -0.05, " backward ends", ha="left", va="center", fontsize=8)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_xlabel(f"time, as bytes of gradients that backward makes ({name_of_unit})")
    axes.set_title(title or _message(sizes, len(gradients), total, spans), loc="left", fontsize=10)
    return figure


def all_reduce_spans(sizes: Sequence[float]) -> list[tuple[float, float]]:
    """Begin and end of each bucket's all-reduce, in bytes of backward's progress: it waits for its
    own gradients and for the bucket before it."""
    spans: list[tuple[float, float]] = []
    ready = 0.0
    for size in sizes:
        ready += size
        begin = max(ready, spans[-1][1] if spans else 0.0)
        spans.append((begin, begin + size))
    return spans


def _message(sizes: Sequence[int], count: int, total: int, spans: Sequence[tuple]) -> str:
    plural = "s" * (len(sizes) != 1)
    hidden = sum(max(0.0, min(end, total) - begin) for begin, end in spans) / total
    return (
        f"{count} gradients leave in {len(sizes)} message{plural}; "
        f"{hidden:.0%} of the bytes can travel while backward runs"
    )


def _box(
    axes: Axes,
    span: tuple[float, float],
    top: float,
    number: int,
    words: str,
    unit: float,
    thick: bool = False,
) -> None:
    left, right = (at / unit for at in span)
    look = {"facecolor": tint(number), "edgecolor": "black", "linewidth": 1.6 if thick else 0.6}
    look["hatch"] = HATCHES[number % len(HATCHES)] if not thick else ""
    axes.add_patch(Rectangle((left, top), right - left, 0.7, **look))
    if words:
        back = {"facecolor": "white", "edgecolor": "none", "pad": 1, "alpha": 0.8}
        at = {"ha": "center", "va": "center", "fontsize": 7.5, "bbox": back}
        axes.text((left + right) / 2, top + 0.35, words, clip_on=True, **at)


def _arrow(axes: Axes, begin: float, end: float) -> None:
    look = {"arrowstyle": "-|>", "mutation_scale": 8, "color": "black", "linewidth": 0.9}
    axes.add_patch(FancyArrowPatch((begin, 1.85), (end, 2.15), shrinkA=0, shrinkB=0, **look))
