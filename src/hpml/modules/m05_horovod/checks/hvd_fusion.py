"""Exercise hvd_fusion: read a Horovod timeline: fused tensors, and where the time went.

`read_timeline(text: str) -> dict`. The timelines are generated (`_timeline.py`).
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

from hpml.checks.compare import described, is_number
from hpml.checks.contract import Check, Claim, Problem, Run
from hpml.checks.kits.raised_here import in_words
from hpml.checks.kits.ready_made import ANYTHING
from hpml.modules.m05_horovod.checks._timeline import (
    Interval,
    Planted,
    covered,
    planted,
    summed,
)
from hpml.ranks import mark

TOLERANCE = 1e-9  # seconds; timelines count in whole microseconds
KEYS = ("collectives", "negotiated", "transferred")


def inputs(seed: int, world_size: int) -> list[list[list[Any]]]:
    """For the only rank: each timeline's text, and whether it was cut off."""
    return [[[case.text, case.cut] for case in planted(seed)]]


def drive(answer: ModuleType, inputs: list[list[Any]]) -> list[Any]:
    """The answer's result for each timeline; for one that was cut off, perhaps an exception."""
    found = []
    for number, (text, cut) in enumerate(inputs, 1):
        mark(f"timeline {number} of {len(inputs)}{', cut off' * cut}")
        try:
            found.append(answer.read_timeline(text))
        except Exception as error:
            if not cut:
                raise
            found.append({"raised": in_words(error, answer)})
    return found


def expect(inputs: list[list[list[Any]]], world_size: int) -> None:
    """None: judges make the expected figures from the seed."""


def replies(run: Run, cut: bool) -> list[tuple[Planted, Any]]:
    """The timelines with or without a cut, each with the answer's result."""
    values = run.values[0] if isinstance(run.values[0], list) else []
    cases = planted(run.seed)
    values = [*values, *[None] * len(cases)]
    return [(case, value) for case, value in zip(cases, values, strict=False) if case.cut == cut]


def malformed(value: Any, key: str) -> Problem | None:
    if not isinstance(value, dict):
        return Problem(f"read_timeline returned {described(value)}, not a dict", "keys")
    if key not in value:
        return Problem(f"{key!r} is missing from what read_timeline returned", "keys")
    return None


def wrong_collectives(case: Planted, got: Any) -> Problem | None:
    groups = isinstance(got, list) and all(isinstance(group, list) for group in got)
    if not groups or not all(isinstance(name, str) for group in got for name in group):
        return Problem(f"collectives is {described(got)}, not a list of lists of str", "keys")
    got, wanted = [sorted(group) for group in got], [sorted(group) for group in case.collectives]
    if got == wanted:
        return None
    if any(name not in case.tensors for group in got for name in group):
        return Problem(f"{case.name}: among the collectives' names are some of no tensor", "names")
    seen = f"{case.name}: {len(got)} collectives with {sum(map(len, got))} tensors in them"
    right = f"{len(wanted)} with {sum(map(len, wanted))}"
    more = sum(map(len, got)) - sum(map(len, wanted))
    if more > 0:
        return Problem(seen, "negotiation", right)
    if more < 0:
        left = {
            "libraries": [],
            "kinds": [group for group in wanted if group[0] not in case.broadcast],
            "alone": [group for group in wanted if len(group) > 1],
        }
        hint = next((hint for hint in left if left[hint] == got), "again")
        return Problem(seen, hint, right)
    if len(got) > len(wanted):
        return Problem(seen, "fused", right)
    if len(got) < len(wanted):
        return Problem(seen, "together", right)
    number = next(number for number in range(len(got)) if got[number] != wanted[number])
    return Problem(
        f"{case.name}: collective {number + 1} has {_few(got[number])}",
        "order" if sorted(got) == sorted(wanted) else "together",
        _few(wanted[number]),
    )


def _few(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) < 4 else f"{', '.join(names[:2])}, {len(names) - 2} more"


def wrong_seconds(case: Planted, key: str, got: Any) -> Problem | None:
    phases = _PHASES[key]
    wanted = covered(case.chosen(phases))
    if not is_number(got):
        return Problem(f"{key} is {described(got)}, not a float", "keys")
    if math.isclose(got, wanted, rel_tol=1e-6, abs_tol=TOLERANCE):
        return None
    return Problem(
        f"{case.name}: {key} is {got:.6g} s",
        hint_for_seconds(case, key, got),
        f"{wanted:.6g} s",
    )


def is_negotiation(phase: str) -> bool:
    return phase.startswith("NEGOTIATE_")


def is_transfer(phase: str) -> bool:
    return phase.split("_")[0] in ("GLOO", "MPI", "NCCL")


def is_copy(phase: str) -> bool:
    return phase.startswith("MEMCPY_")


def is_whole(phase: str) -> bool:
    return phase in ("ALLREDUCE", "BROADCAST")


_PHASES = {"negotiated": is_negotiation, "transferred": is_transfer}


def chained(intervals: Sequence[Interval]) -> float:
    """The seconds of intervals merged one after the other, where one that ends inside the one
    before cuts that off."""
    total = reached = 0.0
    for interval in sorted(intervals, key=lambda interval: (interval.start, interval.end)):
        total += max(0.0, interval.end - max(interval.start, reached))
        reached = interval.end
    return total


def hint_for_seconds(case: Planted, key: str, got: float) -> str:
    """The hint for the misconception that a wrong number of seconds suggests."""

    def near(seconds: float) -> bool:
        return math.isclose(got, seconds, rel_tol=1e-6, abs_tol=TOLERANCE)

    def either(phases: Any) -> bool:
        intervals = case.chosen(phases)
        return near(covered(intervals)) or near(summed(intervals))

    right = _PHASES[key]
    if any(near(covered(case.chosen(right)) * factor) for factor in (1e3, 1e6)):
        return "units"
    if near(summed(case.chosen(right))) or near(chained(case.chosen(right))):
        return "union"
    if either(lambda phase: right(phase) and "REDUCE" in phase):
        return "kinds" if got else "libraries"
    if near(0.0):
        return "libraries"
    mixed = (
        is_negotiation if key == "transferred" else is_transfer,
        lambda phase: is_negotiation(phase) or is_transfer(phase),
        lambda phase: is_negotiation(phase) or is_transfer(phase) or is_whole(phase),
        lambda phase: is_negotiation(phase) or is_whole(phase),
        lambda phase: "ALLREDUCE" in phase,
        lambda phase: "ALLREDUCE" in phase or "BCAST" in phase,
        lambda phase: True,
    )
    if any(either(phases) for phases in mixed):
        return "negotiation"
    if key == "transferred" and either(is_whole):
        return "whole"
    if key == "transferred" and either(lambda phase: is_transfer(phase) or is_copy(phase)):
        return "whole"
    return "pairs"


def nothing_read(value: Any) -> bool:
    """Whether it found nothing: as an answer that takes each line for an event does."""
    return isinstance(value, dict) and all(
        got == [] if isinstance(got, list) else is_number(got) and got == 0
        for got in map(value.get, KEYS)
    )


def judge_collectives(run: Run) -> Problem | None:
    for case, value in replies(run, cut=False):
        problem = malformed(value, "collectives")
        if problem := problem or wrong_collectives(case, value["collectives"]):
            return replace(problem, hint="lost") if nothing_read(value) else problem
    return None


def judge_seconds(run: Run, key: str) -> Problem | None:
    for case, value in replies(run, cut=False):
        problem = malformed(value, key)
        if problem := problem or wrong_seconds(case, key, value[key]):
            if nothing_read(value):
                return replace(problem, hint="lost")
            groups = judge_collectives(run)
            if problem.hint == "pairs" and groups and groups.hint == "again":
                return replace(problem, hint="again")
            return problem
    return None


def judge_transferred(run: Run) -> Problem | None:
    return judge_seconds(run, "transferred")


def judge_negotiated(run: Run) -> Problem | None:
    return judge_seconds(run, "negotiated")


def judge_cut_off(run: Run) -> Problem | None:
    whole = judge_collectives(run) or judge_transferred(run) or judge_negotiated(run)
    for case, value in replies(run, cut=True):
        if isinstance(value, dict) and "raised" in value:
            return Problem(f"{case.name}: {value['raised']}", "cut")
        for key in KEYS:
            if problem := malformed(value, key):
                return problem
        if problem := wrong_collectives(case, value["collectives"]):
            if whole:
                return replace(problem, hint=whole.hint)
            few = sum(map(len, value["collectives"])) < sum(map(len, case.collectives))
            return replace(problem, hint="lost" if few else "unfinished")
        for key in _PHASES:
            if problem := wrong_seconds(case, key, value[key]):
                return replace(problem, hint=whole.hint if whole else "unfinished")
    return None


CHECK = Check(
    id="hvd_fusion",
    title="Read a timeline",
    names=("read_timeline",),
    to_write="the reader of the timeline",
    allowed=ANYTHING,
    inputs=inputs,
    drive=drive,
    expect=expect,
    worlds=(1,),
    process_group=False,
    claims=(
        Claim("each collective that travelled is there, with its tensors", 3, judge_collectives),
        Claim("transferred is the time in which data travelled", 3, judge_transferred),
        Claim("negotiated is the time in which ranks were agreeing", 2, judge_negotiated),
        Claim("a timeline that was cut off is read as far as it goes", 2, judge_cut_off),
    ),
    hints={
        "start": "Print the events of one tensor, one per line, and follow it: when was it agreed "
        "on, copied, sent, copied back? Write down each phase as (name, tensor, start, end) first; "
        "all three figures come from that list.",
        "keys": "Return {'collectives': list of lists of str, 'negotiated': float, 'transferred': "
        "float}, as the docstring says.",
        "names": "A pid is a number that Horovod gave to a tensor. The metadata events, of phase "
        "M and name process_name, tell which one; pid 0 is not a tensor.",
        "negotiation": "NEGOTIATE_ALLREDUCE is talk about a tensor: who has it ready, who has "
        "not? Nothing of it travels yet. Data moves in the phase that is named after the library "
        "that moves it.",
        "whole": "ALLREDUCE and BROADCAST span all that is done once the ranks agree: waiting, "
        "copying into the fusion buffer, sending, copying back. Copies stay in this machine's "
        "memory.",
        "fused": "Tensors in one fusion buffer go in one message. The timeline shows that message "
        "once under each of them; it begins within a few microseconds, not always in the same one.",
        "alone": "A message with one tensor needs no fusion buffer, and so no copies into it. It "
        "travels all the same.",
        "kinds": "The weights went out to all ranks before the first gradient did. Which phase is "
        "that, and which collective?",
        "libraries": "Who moves the data depends on how Horovod was started: GLOO_ALLREDUCE, "
        "MPI_ALLREDUCE, NCCL_ALLREDUCE, GLOO_BCAST and so on. What do these names have in common?",
        "again": "In each step the same tensors travel again: a name in two steps is two "
        "collectives.",
        "together": "One message travels at a time. All its tensors begin before any of them ends, "
        "and the next message begins when all of them have ended, perhaps at once.",
        "order": "Give the collectives in the order in which they travelled.",
        "union": "A second in which twelve tensors are in one phase is one second, not twelve. "
        "Merge intervals that overlap before you add them up.",
        "units": "Time stamps in a trace are in microseconds; give seconds.",
        "pairs": "An E ends what began last under the same pid and has not ended yet: keep a stack "
        "for each pid. Instants (X, i) neither begin nor end anything.",
        "cut": "A job that is killed leaves a file that stops anywhere: without its bracket, or in "
        "the middle of an event. Which part of the text is surely whole?",
        "lost": "More of this file can be read. Many events may stand in one line, and all that "
        "are whole count, up to the last of them.",
        "unfinished": "What had begun and not ended when the file stops is in no figure: nobody "
        "knows how long it took.",
        "raised": "Which event was it? Metadata (M) have no time stamp, and those of pid 0 no name "
        "in their args; an E has no name, a marker of a cycle (i) has no pid.",
    },
)
