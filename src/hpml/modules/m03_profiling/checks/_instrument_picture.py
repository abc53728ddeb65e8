"""The picture of an answer to instrument: what its traces have, of two ranks."""

import io

from hpml.answer import as_python
from hpml.checks.contract import Check, Picture
from hpml.modules.m03_profiling.checks._profiled_training import MOST_BYTES, drive, inputs, serving
from hpml.modules.m03_profiling.checks._recorded import recorded
from hpml.ranks import launch

LASTS = (0.008, 0.005, 0.01, 0.002)  # seconds of each part, played by waiting
PARTS = ("loading", "forward", "backward", "optimizer")
LIMIT = 10.0  # seconds
US = 1e-6


def instrument_picture(check: Check, source: str) -> Picture:
    """For `Check.picture`: let the answer train on two ranks, and draw what it has recorded."""
    from hpml.modules.m03_profiling.checks._parts_picture import parts_picture  # with Matplotlib

    given = inputs(0, 2)
    sent, server = serving(LASTS)(given)
    evidence = launch(
        drive,
        2,
        answer=as_python(source),
        answer_name=check.id,
        rules=check.rules,
        inputs=sent,
        serve=server,
        timeout=LIMIT,
    )
    if evidence.diagnosis is not None:
        raise ValueError(evidence.diagnosis.sentence)
    traces = [recorded(value["trace"], MOST_BYTES) for value in evidence.values]
    begins = [min((span.start for span in trace.steps.values()), default=0.0) for trace in traces]
    rows = {
        f"rank {rank}": [
            (mark.name, US * (mark.start - begin), US * (mark.end - begin))
            for mark in trace.marks
            if mark.name in PARTS
        ]
        for rank, (trace, begin) in enumerate(zip(traces, begins, strict=True))
    }
    steps = {
        number: (US * (span.start - begins[0]), US * (span.end - begins[0]))
        for number, span in traces[0].steps.items()
    }
    total = given[0]["steps"]
    title = f"Your profiler recorded {len(steps)} of {total} steps: " + ", ".join(map(str, steps))
    image = io.BytesIO()
    figure = parts_picture(rows, steps, title=title)
    figure.savefig(image, format="png", dpi=110, facecolor="white")
    words = (
        f"{title}. Time is counted on each rank from its first recorded step: these ranks do not "
        "wait for each other. The dashed lines are the borders of rank 0's steps. Each part is "
        "played here by waiting "
        + ", ".join(
            f"{1e3 * lasts:.0f} ms ({part})" for part, lasts in zip(PARTS, LASTS, strict=True)
        )
    )
    return Picture(image.getvalue(), words)
