"""The picture of mixed_precision's answer: its losses beside those of a training in float32."""

import io
from collections.abc import Callable, Sequence
from typing import Any

from hpml.answer import as_python
from hpml.checks.contract import Check, Picture
from hpml.checks.kits.drawn import Drawn
from hpml.modules.m02_hardware.checks._two_precisions import given
from hpml.ranks import launch

LIMIT = 10.0  # seconds


def parity_picture(
    drive: Callable[..., Any], serve: Callable[..., Any]
) -> Callable[[Check, str], Picture]:
    """For `Check.picture`: run the answer's training once more, and draw how far its losses are
    from those in float32, with those of weights in bfloat16. Raises ValueError where the answer
    did not return."""

    def picture(check: Check, source: str) -> Picture:
        from matplotlib.figure import Figure

        # Nothing of this launch is judged
        due = Drawn(__package__, check.id).pictured()
        sent, server = serve([given(due)])
        evidence = launch(
            drive,
            1,
            answer=as_python(source),
            answer_name=check.id,
            rules=check.rules,
            inputs=sent,
            serve=server,
            process_group=False,
            timeout=LIMIT,
        )
        if evidence.diagnosis:
            raise ValueError("the answer did not return")
        losses: Sequence[float] = evidence.values[0]["losses"]
        right, low = due["float32"], due["bfloat16"]
        steps = range(1, len(losses) + 1)
        figure = Figure(figsize=(7, 3), layout="constrained")
        axes = figure.subplots()
        rounded = [a - b for a, b in zip(low, right, strict=True)]
        mine = [a - b for a, b in zip(losses, right, strict=True)]
        axes.plot(steps, rounded, "--", color="black", label="weights in bfloat16")
        axes.plot(steps, mine, "-o", markersize=3, label="your training")
        axes.set(xlabel="step", ylabel="loss minus the loss in float32")
        axes.legend()
        words = f"Your losses are within {max(map(abs, mine)):.2g} of those in float32"
        axes.set_title(words)
        image = io.BytesIO()
        figure.savefig(image, format="png", dpi=110, facecolor="white")
        beside = f"with weights in bfloat16, the last is {rounded[-1]:.2g} above"
        return Picture(image.getvalue(), f"{words}; {beside}")

    return picture
