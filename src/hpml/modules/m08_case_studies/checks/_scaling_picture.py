"""The picture of an answer to predict_scaling: its curves through published tables."""

import io
from typing import Any

from hpml.answer import as_python
from hpml.checks.compare import is_number
from hpml.checks.contract import Check, Picture
from hpml.modules.m08_case_studies.checks._published_jobs import Published, fitted_points, published
from hpml.ranks import launch

LIMIT = 10.0  # seconds
DRAWN = ("azure-v100-resnet50-rdma", "azure-v100-resnet50-tcp")  # the same GPUs on two networks


def scaling_picture(check: Check, source: str) -> Picture:
    """For `Check.picture`: published points, and the answer's curve as far as twice the last one.

    Raises ValueError where the answer predicts nothing."""
    from matplotlib.figure import Figure

    shown = [one for one in published() if one.rows[0].table in DRAWN]
    ranks = [_ranks(one) for one in shown]
    given = {name: [] for name in ("ring", "whole", "buckets", "constants", "tables")}
    calls = [[one.job, one.given, sizes] for one, sizes in zip(shown, ranks, strict=True)]
    evidence = launch(
        check.drive,
        1,
        answer=as_python(source),
        answer_name=check.id,
        rules=check.rules,
        inputs=[{**given, "published": calls}],
        process_group=False,
        timeout=LIMIT,
    )
    if evidence.diagnosis is not None:
        raise ValueError(evidence.diagnosis.sentence)
    curves: Any = evidence.values[0]["published"]
    if not isinstance(curves, list) or not all(
        is_number(rate) and rate > 0 for curve in curves for rate in curve
    ):
        raise ValueError("no curve to draw")
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    for axes, one, sizes, curve in zip(
        figure.subplots(1, len(shown)), shown, ranks, curves, strict=True
    ):
        _draw(axes, one, sizes, curve)
    figure.suptitle("ResNet-50: what your model predicts from two published points", fontsize=11)
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=110, facecolor="white")
    words = (
        "Images/s over GPUs, of two published tables. Your curve was fitted to the two filled "
        "points; the open circle was not given. Dotted: every GPU as fast as one alone"
    )
    return Picture(image.getvalue(), words)


def _ranks(one: Published) -> list[int]:
    last = 2 * max(ranks for ranks, _ in one.given + one.unseen)
    return [size for size in (1, 2, 4, 8, 16, 32, 64, 128, 256) if size <= last]


def _draw(axes: Any, one: Published, ranks: list[int], curve: list[float]) -> None:
    fitted = fitted_points(one.job, one.given)
    others = [point for point in one.given if point not in fitted]
    axes.plot(ranks, [p * one.job["alone"] for p in ranks], ":", color="grey", label="perfect")
    axes.plot(ranks, curve, "-", color="#0072B2", label="your model")
    axes.plot(*zip(*others, strict=True), "x", color="black", label="given, not fitted")
    axes.plot(*zip(*fitted, strict=True), "s", color="black", label="fitted")
    axes.plot(
        *zip(*one.unseen, strict=True),
        "o",
        color="#D55E00",
        markerfacecolor="white",
        markersize=9,
        label="published, not given",
    )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(ranks, [str(size) for size in ranks])
    row, (last, measured) = one.rows[0], one.unseen[-1]
    error = curve[ranks.index(last)] / measured - 1
    axes.set(xlabel="GPUs", ylabel="images/s, all GPUs together")
    axes.set_title(f"{row.processor}, {row.network}: {error:+.1%} at {last} GPUs", fontsize=10)
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
