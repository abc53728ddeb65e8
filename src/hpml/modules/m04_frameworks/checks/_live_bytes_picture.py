"""The picture of an answer to static_graph: its live bytes, step by step, beside the least."""

import io
from itertools import accumulate

from hpml.answer import as_python
from hpml.checks.contract import Check, Picture
from hpml.checks.kits.drawn import Drawn
from hpml.modules.m04_frameworks.checks._executed_plan import Wrong, execute, malformed
from hpml.ranks import launch
from hpml.trace.layout import PALETTE

BATCH = 16  # images; nothing of this is judged
LIMIT = 10.0  # seconds
MB = 1e6


def live_bytes_picture(check: Check, source: str) -> Picture:
    """For `Check.picture`: the course's network under the answer's plan, and the least."""
    from matplotlib.figure import Figure

    pictured = Drawn(__package__, check.id).pictured()
    graph, least = pictured["graph"], pictured["least"]
    evidence = launch(
        check.drive,
        1,
        answer=as_python(source),
        answer_name=check.id,
        rules=check.rules,
        inputs=[{"plans": [graph], "orders": []}],
        process_group=False,
        timeout=LIMIT,
    )
    if evidence.diagnosis is not None:
        raise ValueError(evidence.diagnosis.sentence)
    plan = evidence.values[0]["plans"][0]
    result = malformed(plan) or execute(graph, plan)
    if isinstance(result, Wrong):
        raise ValueError(result.message)
    nbytes = {node["name"]: node["bytes"] for node in graph["nodes"]}
    never = list(accumulate(nbytes[name] for name in result.ran))
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    axes = figure.subplots()
    lines = (
        ("nothing freed", never, {"color": "black", "linestyle": ":"}),
        ("your plan", result.live, {"color": PALETTE[6], "linewidth": 3}),
        ("the least", least, {"color": "black", "linewidth": 1}),
    )
    for name, values, style in lines:
        axes.step(range(len(values)), [v / MB for v in values], where="mid", label=name, **style)
    axes.set(xlabel="nodes of the graph, in the order in which they run", ylabel="live (MB)")
    axes.set_ylim(0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    peak, due = result.peak / MB, max(least) / MB
    axes.set_title(
        f"Your plan's peak is {peak:.1f} MB; the least for this order is {due:.1f} MB",
        loc="left",
        fontsize=11,
    )
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=110, facecolor="white")
    words = (
        f"The bytes of tensors that are alive while each node runs, in a training step of the "
        f"course's network on {BATCH} images: with your plan, with the best plan for this order, "
        "and if nothing were freed"
    )
    return Picture(image.getvalue(), words)
