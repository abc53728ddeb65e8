"""The picture of an answer that is a pipeline: which rank computes which micro-batch, and when."""

import io
from collections.abc import Callable, Sequence
from typing import Any

from hpml.answer import as_python
from hpml.checks.contract import Check, Picture
from hpml.checks.seeds import derived
from hpml.modules.m07_hybrid_parallelism.checks._pipelined_training import (
    drive,
    inputs,
    micro_batches,
    passes,
    serial,
    serve,
)
from hpml.predict.pipeline import Pass, Schedule, bubble, played
from hpml.ranks import launch
from hpml.ranks.evidence import Evidence
from hpml.trace.computations import idle_share, live_activations

RANKS = 4
LIMIT = 10.0  # seconds
SEED = 7  # nothing of this launch is judged


def pipeline_picture_of(count: int, *, whole: bool = False) -> Callable[[Check, str], Picture]:
    """For `Check.picture`: launch one step of the answer on four ranks once more, and draw it.

    What is drawn is the order in which each rank computed, in units of one forward pass, if a
    backward pass takes two and a message no time. The picture raises ValueError where ranks did not
    all return, since what they would have computed is not known, and where no rank computed
    anything that is known.
    """

    def picture(check: Check, source: str) -> Picture:
        from hpml.trace.pipeline_picture import pipeline_picture  # with Matplotlib

        ranks = inputs(derived(SEED, check.id), RANKS, [micro_batches(count)], whole)
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
        if evidence.diagnosis is not None:
            raise ValueError(f"no order to draw: {evidence.diagnosis.sentence}")
        done = played(Schedule(check.title, first_step(evidence, ranks)))
        unit = "forward passes of one stage; a backward pass takes two"
        title = f"In this order your ranks idle for {idle_share(done):.0%} of the time"
        image = io.BytesIO()
        figure = pipeline_picture({check.id: done}, title=title, unit=unit)
        figure.savefig(image, format="png", dpi=110, facecolor="white")
        live = live_activations(done)
        micro = f"{count} micro-batches" if count > 1 else "one micro-batch"
        words = (
            f"In this order {RANKS} ranks idle for {idle_share(done):.0%} of the time with "
            f"{micro}; (p-1)/(m+p-1) is {bubble(RANKS, count):.0%}. Rank 0 has the activations of "
            f"up to {live.get(0, 0)} at a time"
        )
        return Picture(image.getvalue(), words)

    return picture


def first_step(evidence: Evidence, ranks: Sequence[dict[str, Any]]) -> tuple[tuple[Pass, ...], ...]:
    """Each rank's passes in the first step, in its order, of micro-batches that are known."""
    steps, _ = serial(ranks)
    parts = {rows: k for k, rows in enumerate(steps[0].parts)}
    return tuple(
        tuple(
            dict.fromkeys(
                Pass(one.kind, parts[one.rows])
                for one in (passes(rank, steps) or [[]])[0]
                if one.rows in parts
            )
        )
        for rank in evidence.ranks
    )
