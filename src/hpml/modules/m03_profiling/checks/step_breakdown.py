"""Exercise step_breakdown: from a trace's events to the milliseconds of each part of a step.

`breakdown(events)` gets planted traces, whose parts are known, and a recorded one.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from types import ModuleType
from typing import Any

from hpml.checks.contract import Check, Claim, Problem, Run
from hpml.checks.kits.ready_made import ANYTHING
from hpml.modules.m03_profiling.checks._breakdown_picture import breakdown_picture
from hpml.modules.m03_profiling.checks._planted_trace import PARTS
from hpml.modules.m03_profiling.checks._step_parts import KINDS, expect, inputs

WITHIN = 0.01  # of the part's time
AT_LEAST = 0.002  # of the step's: what a small part may be off
UNITS = {1e3: "microseconds", 1e-3: "seconds"}

Step = dict[str, float]


def drive(answer: ModuleType, inputs: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """By kind and trace, what the answer returns, as plain numbers."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {str(key): plain(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [plain(one) for one in value]
        return float(value) if isinstance(value, Real) else str(value)[:80]

    return {
        kind: [plain(answer.breakdown(events)) for events in traces]
        for kind, traces in inputs.items()
    }


def is_off(got: float, right: float, step: float) -> bool:
    return not abs(got - right) <= max(WITHIN * right, AT_LEAST * step)


def wrong_form(got: Any, steps: int) -> Problem | None:
    if not isinstance(got, list) or not all(isinstance(one, dict) for one in got):
        return Problem("breakdown did not return a list of dicts", "form", "one for each step")
    for one in got:
        if set(one) != set(PARTS):
            seen = ", ".join(sorted(one)[:9]) or "none"
            return Problem(f"a step's parts are {seen[:100]}", "form", ", ".join(PARTS))
        if not all(isinstance(value, float) and math.isfinite(value) for value in one.values()):
            return Problem("a step has a part that is not a number", "form")
    if len(got) != steps:
        many = f"{len(got)} step{'s' * (len(got) != 1)}"
        return Problem(f"breakdown returned {many}", "steps", str(steps))
    return None


def wrong_sums(got: Sequence[Step], right: Sequence[Any]) -> Problem | None:
    """Whether the parts of each step add up to it, in milliseconds. Both have as many steps."""
    lengths = [sum(parts.values()) for parts, *_ in right]
    sums = [sum(one.values()) for one in got]
    whole = sum(sums) / sum(lengths)
    for times, unit in UNITS.items():
        if 0.5 < whole / times < 2:
            return Problem(f"the parts of a step add up as if they were {unit}", "units")
    off = off_places(sums, lengths)
    if not off:
        return None
    if any(all(abs(one - shares) < 0.01 * shares for one in sums) for shares in (1.0, 100.0)):
        return Problem(f"the parts of a step add up to {sums[0]:.4g}", "units", "its milliseconds")
    if not off_places(sorted(sums), sorted(lengths)):
        return Problem("the steps are not in the order of their numbers", "order")
    step = off[0]
    seen = f"the parts of one step of a trace add up to {sums[step]:.4g} ms"
    parts, hidden, *_ = right[step]
    hint = why_off(got[step], parts, hidden, sums[step] - lengths[step])
    return Problem(seen, hint, f"{lengths[step]:.4g} ms, as long as the step")


def off_places(sums: Sequence[float], lengths: Sequence[float]) -> list[int]:
    pairs = enumerate(zip(sums, lengths, strict=True))
    return [place for place, (one, length) in pairs if is_off(one, length, length)]


def why_off(got: Step, parts: Step, hidden: float, more: float = 0.0) -> str:
    """The hint for a step whose parts are not right, and add up to so many milliseconds `more`."""
    step = sum(parts.values())
    off = {name for name in PARTS if is_off(got[name], parts[name], step)}
    marked = [name for name in PARTS if name != "other" and is_off(0.0, parts[name], step)]
    if got["transforms"] == 0.0 and got["loading"] > parts["loading"]:
        return "innermost"
    if [name for name in marked if got[name] == 0.0]:
        return "names"
    if off and off <= {"other"}:
        return "step_mark" if more > 0 else "other"
    if got["other"] < 0.5 * parts["other"] and not is_off(more, 0.0, step):
        return "other"
    if more > 0 and is_off(more, 0.0, step) and off - {"communication"}:
        return "twice"
    if "communication" in off:
        return "hidden" if got["communication"] > parts["communication"] else "exposed"
    if is_off(more, 0.0, step):
        return "other"
    if "other" in off and got["other"] > parts["other"]:
        return "names"
    if {"loading", "transforms"} & off and "forward" in off and got["forward"] < parts["forward"]:
        return "threads"
    return "innermost"


def alike(mine: Step, other: Step, step: float) -> bool:
    return not any(is_off(mine[name], other[name], step) for name in PARTS)


def adds_up(run: Run) -> Problem | None:
    for kind in KINDS:
        for got, right in zip(run.values[0][kind], run.expected[kind], strict=True):
            if problem := wrong_form(got, len(right)) or wrong_sums(got, right):
                return problem
    return None


def is_right(run: Run, kind: str, what: str) -> Problem | None:
    for got, right in zip(run.values[0][kind], run.expected[kind], strict=True):
        if problem := wrong_form(got, len(right)) or wrong_sums(got, right):
            return problem
        for number, (mine, (parts, hidden, *loose)) in enumerate(zip(got, right, strict=True), 1):
            step = sum(parts.values())
            for name in PARTS:
                if is_off(mine[name], parts[name], step):
                    seen = f"in {what}, {name} takes {mine[name]:.4g} ms of step {number}"
                    hint = why_off(mine, parts, hidden)
                    if any(alike(mine, other, step) for other in loose):
                        hint = "other_names"
                    return Problem(seen, hint, f"{parts[name]:.4g} ms")
    return None


def nested(run: Run) -> Problem | None:
    return is_right(run, "nested", "a trace of one process")


def messages(run: Run) -> Problem | None:
    return is_right(run, "messages", "a trace with messages")


def recorded(run: Run) -> Problem | None:
    problem = is_right(run, "recorded", "a trace that was recorded")
    made = nested(run) or messages(run)  # they tell mistakes apart that look alike here
    return replace(problem, hint=made.hint) if problem and made else problem


CHECK = Check(
    id="step_breakdown",
    title="Where a step's milliseconds go",
    names=("breakdown",),
    to_write="the milliseconds of each part, from a trace's events",
    allowed=ANYTHING,
    process_group=False,
    worlds=(1,),
    inputs=inputs,
    drive=drive,
    expect=expect,
    picture=breakdown_picture,
    claims=(
        Claim("there is a dict for each step, in order, and its parts add up to it", 2, adds_up),
        Claim("nested marks count once, and another thread's not at all", 3, nested),
        Claim("of communication, what is exposed counts", 3, messages),
        Claim("it is right for a trace that PyTorch has recorded", 2, recorded),
    ),
    hints={
        "start": "If durations were simply added up by name, what would be counted twice? Ask the "
        "other way round: cut the step at every beginning and end of an event. In each piece "
        "nothing changes: whose is it?",
        "form": "A list with one dict for each step: seven parts, each a number.",
        "steps": "Each event whose name begins with ProfilerStep# is a step.",
        "order": "Events are in a trace in any order. Sort the steps by number: by name, "
        "ProfilerStep#10 comes before ProfilerStep#9.",
        "units": "A trace has microseconds, and milliseconds are asked for; no shares.",
        "names": "Some names have an ending that says more: the loader's class, the optimizer's, "
        "the operation of a message. How do those names begin? Those of messages have two "
        "beginnings, and are on threads of their own.",
        "other_names": "A name that begins like the one you look for, or has it in the middle, is "
        "another name: `loading_queue` is no loading. The table says which names count as a whole, "
        "and of which the beginning.",
        "other": "A step lasts from its mark's beginning to its end, and time without a name "
        "belongs to it: it is idle, or nobody marked it. It is what is left when all is counted.",
        "step_mark": "The step's own mark is around everything. It is not part of the step.",
        "hidden": "While this rank computes, a message under way costs the step nothing. It "
        "computes while an operator runs, on whichever thread, and in loading and transforms. Of a "
        "message that crosses the border of a step, each step has what lies inside it. An op of "
        "`c10d::` starts a message, and is none.",
        "exposed": "Some communication is missing. Look for three things. Inside the mark of "
        "backward the main thread may wait for a message, or for a thread that does: exposed "
        "communication comes first, whatever mark is open. A message that began in the step before "
        "may still be under way when this one begins. And where no `aten::` event goes on in an op "
        "of `c10d::`, or in a node of autograd's, the rank does not compute.",
        "twice": "An event inside another is part of it, and what is on two threads at the same "
        "time takes that time once. An event that crosses the border of a step counts inside it.",
        "threads": "A thread that loads ahead does so while the main thread computes. Which "
        "thread's time is the step's? That on which ProfilerStep# is marked.",
        "innermost": "Where marks are nested, the innermost one counts: the one that began last.",
        "raised": "Not every event has a duration: only those whose `ph` is X. Others are names of "
        "threads, moments and arrows.",
    },
)
