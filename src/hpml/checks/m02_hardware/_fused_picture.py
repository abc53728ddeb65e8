"""The picture of fusion_buffer's answer: its messages, and how far backward was when they left."""

import io
from collections import Counter

from hpml.answer import as_python
from hpml.checks.contract import Check, Picture
from hpml.checks.m02_hardware._made_gradients import CASES, drive, inputs, inside, serve
from hpml.checks.seeds import derived
from hpml.ranks import launch

RANKS, CASE = 2, 1
LIMIT = 10.0  # seconds
SEED = 7  # nothing of this launch is judged


def fused_picture(check: Check, source: str) -> Picture:
    """For `Check.picture`: launch the answer on two ranks once more, and draw rank 0's messages in
    the case of three dtypes. Raises ValueError where it sent none, or did not return."""
    from matplotlib.figure import Figure

    from hpml.trace.launch_timeline import HATCHES
    from hpml.trace.layout import tint

    ranks = inputs(derived(SEED, check.id), RANKS)
    sent, server = serve(ranks)
    evidence = launch(
        drive,
        RANKS,
        answer=as_python(source),
        answer_name=check.id,
        rules=check.rules,
        inputs=sent,
        serve=server,
        timeout=LIMIT,
    )
    asked = evidence.ranks[0].asked
    ends = [n for n, each in enumerate(asked) if each.request == "averaged"]
    if evidence.diagnosis or len(ends) != len(CASES):
        raise ValueError("the answer did not return")
    begin, end = ends[CASE - 1] + 1, ends[CASE]
    moments = [each.at for each in asked[begin:end]]
    calls = [
        call
        for call in evidence.ranks[0].calls
        if moments[0] <= call.issued <= asked[end].at and call.nbytes
    ]
    if not calls:
        raise ValueError("the answer sent nothing")

    given = ranks[0]["gradients"][CASE]
    dtypes = ("float32", "float64", "bfloat16")
    looks = {
        name: {"color": tint(n), "hatch": HATCHES[n], "edgecolor": "black", "linewidth": 0.6}
        for n, name in enumerate(dtypes)
    }
    figure = Figure(figsize=(8, 4), layout="constrained")
    above, below = figure.subplots(2, sharex=True)
    for number, (base, layout) in enumerate(given, 1):
        name = str(base.dtype).removeprefix("torch.")
        above.bar(number, inside(base, layout).nbytes / 1e3, 0.8, **looks[name])
    # Gradients that backward had made when a message left
    made = [sum(at < call.issued for at in moments) for call in calls]
    beside: Counter[int] = Counter()
    labelled: set[str] = set()
    for taken, call in zip(made, calls, strict=True):
        label = None if call.dtype in labelled else call.dtype
        labelled.add(call.dtype)
        left = min(taken, len(given)) + 0.4 * beside[taken]
        look = looks.get(call.dtype, {"color": "lightgrey", "edgecolor": "black"})
        below.bar(left, call.nbytes / 1e3, 0.4, label=label, **look)
        beside[taken] += 1
    below.axhline(ranks[0]["buffer_bytes"] / 1e3, linestyle="--", color="black", linewidth=1)
    figure.legend(loc="outside right center", title="dashed:\nbuffer_bytes")
    above.set_ylabel("gradient, kB")
    below.set_ylabel("message, kB")
    below.set_xlabel("gradients that backward had made when the message left")
    early = sum(taken <= len(given) for taken in made)
    words = (
        f"{len(calls)} messages carry {len(given)} gradients, and {early} of them left while "
        "backward went on"
    )
    figure.suptitle(words)
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=110, facecolor="white")
    return Picture(image.getvalue(), words)
