"""The picture of an answer to fit_alpha_beta: its line through one disturbed measurement."""

import io
import random

from hpml.answer import as_python
from hpml.checks.contract import Check, Picture
from hpml.modules.m08_case_studies.checks._fit_cases import SHARED, SIZES, planted, ring_seconds
from hpml.ranks import launch

SEED = 7  # nothing of this is judged
LIMIT = 10.0  # seconds


def fit_picture(check: Check, source: str) -> Picture:
    """For `Check.picture`: a shared network's times, and the answer's line."""
    from hpml.modules.m08_case_studies.checks._fitted_line_picture import (
        fitted_line,
    )  # with Matplotlib

    shown = planted(random.Random(SEED), SHARED)
    seconds = [list(times) for times in shown.seconds]
    evidence = launch(
        check.drive,
        1,
        answer=as_python(source),
        answer_name=check.id,
        rules=check.rules,
        inputs=[{"networks": [[list(SIZES), seconds, shown.ranks]], "half": []}],
        process_group=False,
        timeout=LIMIT,
    )
    if evidence.diagnosis is not None:
        raise ValueError(evidence.diagnosis.sentence)
    alpha, beta = map(float, evidence.values[0]["fitted"][0])
    values = f"α {1e6 * alpha:.3g} µs and β {1e9 * beta:.3g} ns per byte"
    planted_ones = f"{1e6 * shown.alpha:.3g} µs and {1e9 * shown.beta:.3g} ns"
    title = f"Your line: {values}; planted are {planted_ones}"
    figure = fitted_line(
        SIZES,
        seconds,
        lambda nbytes: ring_seconds(nbytes, shown.ranks, alpha, beta),
        disturbed=shown.disturbed,
        title=title,
    )
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=110, facecolor="white")
    words = (
        f"{title}. The all-reduce of {shown.ranks} ranks, 64 B to 1 GiB, on a network that is not "
        f"judged: {len(shown.disturbed)} of {len(SIZES)} sizes were disturbed"
    )
    return Picture(image.getvalue(), words)
