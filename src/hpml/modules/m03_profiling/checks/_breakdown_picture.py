"""The picture of an answer to step_breakdown: a trace, and what the answer makes of it."""

import io
import random
from typing import Any

from hpml.answer import as_python
from hpml.checks.contract import Check, Picture
from hpml.modules.m03_profiling.checks._definition import communicates, computes
from hpml.modules.m03_profiling.checks._planted_trace import PARTS, Event, planted
from hpml.ranks import launch

LIMIT = 10.0  # seconds
US = 1e-6
ROWS = ("marks, innermost on top", "operators", "messages")


def breakdown_picture(check: Check, source: str) -> Picture:
    """For `Check.picture`: two steps of a planted trace as rows, and the answer's first step."""
    from hpml.modules.m03_profiling.checks._parts_picture import parts_picture  # with Matplotlib

    trace = planted(random.Random(3), distributed=True, steps=2)
    evidence = launch(
        check.drive,
        1,
        answer=as_python(source),
        answer_name=check.id,
        rules=check.rules,
        inputs=[{"shown": [trace.events]}],
        process_group=False,
        timeout=LIMIT,
    )
    if evidence.diagnosis is not None:
        raise ValueError(evidence.diagnosis.sentence)
    first: Any = evidence.values[0]["shown"][0][0]
    answer = {name: first[name] / 1e3 for name in PARTS}
    marks = [e for e in trace.events if e["name"].startswith("ProfilerStep#")]
    steps = {int(e["name"].partition("#")[2]): span(e) for e in sorted(marks, key=start)}
    most = max(answer, key=answer.get)
    number = min(steps)
    title = f"Step {number}: your answer gives most time to {most}, {1e3 * answer[most]:.1f} ms"
    figure = parts_picture(rows(trace.events, marks[0]["tid"]), steps, title=title, answer=answer)
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=110, facecolor="white")
    total = 1e3 * (steps[number][1] - steps[number][0])
    words = (
        f"{title}. A planted trace of two steps: the marks of the main thread, operators on "
        f"whichever thread, messages under way. The bar is your answer for step {number}, which "
        f"lasts {total:.1f} ms; yours add up to {1e3 * sum(answer.values()):.1f} ms"
    )
    return Picture(image.getvalue(), words)


def start(event: Event) -> float:
    return event["ts"]


def span(event: Event) -> tuple[float, float]:
    return US * event["ts"], US * (event["ts"] + event["dur"])


def rows(events: list[Event], main: int) -> dict[str, list[tuple[str, float, float]]]:
    """By row, what is drawn, the outer before the inner."""
    found: dict[str, list[tuple[str, float, float]]] = {row: [] for row in ROWS}
    for event in sorted((e for e in events if e["ph"] == "X"), key=lambda e: (e["ts"], -e["dur"])):
        name = "optimizer" if event["name"].startswith("Optimizer.") else event["name"]
        if name in PARTS and event["tid"] == main:
            found[ROWS[0]].append((name, *span(event)))
        elif computes(name):
            found[ROWS[1]].append(("operator", *span(event)))
        elif communicates(name):
            found[ROWS[2]].append(("communication", *span(event)))
    return found
