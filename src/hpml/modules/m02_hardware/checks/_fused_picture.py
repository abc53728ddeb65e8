"""The picture of fusion_buffer's answer: its messages, how far backward was when they left, and the
seconds that they take over a link, beside those of one message for each gradient."""

import io
from collections import Counter
from collections.abc import Sequence
from typing import Any

from hpml.answer import as_python
from hpml.checks.contract import Check, Picture
from hpml.checks.seeds import derived
from hpml.modules.m02_hardware.checks._made_gradients import CASES, drive, inputs, inside, serve
from hpml.ranks import launch
from hpml.ranks.evidence import Evidence

RANKS, CASE = 2, 1
LIMIT = 10.0  # seconds
LINK = "1gbit"
SEED = 7  # nothing of these launches is judged
ONE_BY_ONE = """
import torch.distributed as dist

def average(gradients, buffer_bytes):
    for gradient in gradients:
        whole = gradient.contiguous()
        dist.all_reduce(whole)
        gradient.copy_(whole / dist.get_world_size())
"""


def fused_picture(check: Check, source: str) -> Picture:
    """For `Check.picture`: launch the answer on two ranks once more, and draw rank 0's messages in
    the case of three dtypes; then average the same gradients one by one, over the same link.

    Raises ValueError where the answer sent none, or did not return."""
    from matplotlib.figure import Figure

    from hpml.trace.launch_timeline import HATCHES
    from hpml.trace.layout import tint

    ranks = inputs(derived(SEED, check.id), RANKS)
    evidence = launched(check, as_python(source), ranks)
    begin, end = bounds(evidence)
    asked = evidence.ranks[0].asked
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
    figure.suptitle(words, fontsize="medium")
    # On a busy machine it may not end in time: the picture is then without its seconds
    apart = launched(check, ONE_BY_ONE, ranks)
    if not (evidence.no_link or apart.no_link or apart.diagnosis):
        title = f"{words}\n{beside_one_by_one(seconds(evidence), seconds(apart))}"
        figure.suptitle(title, fontsize="medium")
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=110, facecolor="white")
    return Picture(image.getvalue(), words)


def launched(check: Check, source: str, ranks: Sequence[dict[str, Any]]) -> Evidence:
    sent, server = serve(ranks, pause=0.0)  # its seconds are shown
    return launch(
        drive,
        RANKS,
        answer=source,
        answer_name=check.id,
        rules=check.rules,
        inputs=sent,
        serve=server,
        link=LINK,
        timeout=LIMIT,
    )


def bounds(evidence: Evidence) -> tuple[int, int]:
    """Which of rank 0's requests are the case's first gradient, and its end.

    Raises ValueError where the answer did not return."""
    asked = evidence.ranks[0].asked
    ends = [n for n, each in enumerate(asked) if each.request == "averaged"]
    if evidence.diagnosis or len(ends) != len(CASES):
        raise ValueError("the answer did not return")
    return ends[CASE - 1] + 1, ends[CASE]


def seconds(evidence: Evidence) -> float:
    """From the case's first gradient until all of them were averaged, on rank 0."""
    begin, end = bounds(evidence)
    asked = evidence.ranks[0].asked
    return asked[end].at - asked[begin].at


def beside_one_by_one(own: float, apart: float) -> str:
    return (
        f"until all are averaged, over a link of 1 Gbit/s: {1e3 * own:.0f} ms; "
        f"with one message for each gradient: {1e3 * apart:.0f} ms"
    )
