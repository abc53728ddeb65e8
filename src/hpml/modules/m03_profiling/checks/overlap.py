"""Exercise overlap: how much communication is hidden, how much waits, what is exposed.

`overlap(traces) -> list[list[dict]]`. The jobs are played (`_overlap_cases.py`).
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from types import ModuleType
from typing import Any

from hpml.checks.compare import described, is_number
from hpml.checks.contract import Check, Claim, Problem, Run
from hpml.checks.kits.ready_made import ANYTHING
from hpml.modules.m03_profiling.checks._overlap_cases import Case, cases
from hpml.modules.m03_profiling.checks._overlap_truth import (
    HIDDEN_MISTAKES,
    KEYS,
    WAITING_MISTAKES,
    Figures,
    Mistake,
    truth,
)
from hpml.modules.m03_profiling.checks._side_by_side import overlap_picture
from hpml.ranks import mark

LEAST = 2e-5  # seconds; ranks record the end of one collective some microseconds apart


def inputs(seed: int, world_size: int) -> list[list[list[str]]]:
    """For the only rank: each job's traces, by rank, as JSON."""
    return [[[json.dumps(made.events) for made in case.ranks] for case in cases(seed)]]


def drive(answer: ModuleType, given: list[list[str]]) -> list[Any]:
    """What the answer finds in each job."""
    import json

    found = []
    for number, traces in enumerate(given, 1):
        mark(f"job {number} of {len(given)}, with traces of {len(traces)} ranks")
        found.append(answer.overlap([json.loads(text) for text in traces]))
    return found


def expect(inputs: list[Any], world_size: int) -> None:
    """None: judges make the jobs, and the truth, from the seed."""


@cache
def truths(seed: int) -> list[list[Figures]]:
    """By job and rank: the right figures."""
    return [[truth(made) for made in case.ranks] for case in cases(seed)]


def malformed(case: Case, value: Any) -> Problem | None:
    """What keeps the figures from being compared: a shape, a type; or None."""
    wanted = [len(made.steps) for made in case.ranks]
    if not isinstance(value, list | tuple) or len(value) != len(wanted):
        return _shape(f"{case.name}: overlap returned {described(value)}", "a list over ranks")
    for rank, (steps, count) in enumerate(zip(value, wanted, strict=True)):
        if not isinstance(steps, list | tuple) or len(steps) != count:
            return _shape(f"{case.name}: for rank {rank} there is {described(steps)}", "its steps")
        for one in steps:
            if not isinstance(one, dict) or any(key not in one for key in KEYS):
                return _shape(f"{case.name}: for a step of rank {rank} there is {described(one)}")
            for key in KEYS:
                if not is_number(one[key]):
                    return _shape(f"{case.name}: {key} is {described(one[key])}", "seconds")
    return None


def _shape(message: str, expected: str = "hidden, waiting and exposed") -> Problem:
    return Problem(message, "shape", expected)


def judged(
    run: Run,
    keys: Sequence[str],
    mistakes: Sequence[tuple[str, Mistake]],
    *,
    recorded: bool = False,
) -> Problem | None:
    """The first figure of these keys that is wrong, as a Problem; or None."""
    jobs, dues = cases(run.seed), truths(run.seed)
    values = run.values[0] if isinstance(run.values[0], list) else []
    if len(values) != len(jobs):
        return _shape(f"of {len(jobs)} jobs, {len(values)} came back")
    for case, value, due in zip(jobs, values, dues, strict=True):
        if case.recorded != recorded:
            continue
        if problem := malformed(case, value):
            return problem
        if seen := _first_wrong(case, value, due, keys):
            rank, place, key = seen
            step = list(case.ranks[rank].steps)[place]
            message = f"{case.name}: in step {step} of rank {rank}, {key} is "
            return Problem(
                message + _ms(value[rank][place][key]),
                hint(case, value, due, keys, mistakes),
                _ms(due[rank][place][key]),
            )
    return None


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.4g} ms"


def _first_wrong(
    case: Case, value: Any, due: Sequence[Figures], keys: Sequence[str]
) -> tuple[int, int, str] | None:
    """(rank, place of the step, key) of the first figure that is too far off."""
    for rank, steps in enumerate(due):
        for place, right in enumerate(steps):
            communication = sum(right.values())
            allowed = max(LEAST, case.tolerance * communication)
            for key in keys:
                if not abs(value[rank][place][key] - right[key]) <= allowed:
                    return rank, place, key
    return None


def hint(
    case: Case,
    value: Any,
    due: Sequence[Figures],
    keys: Sequence[str],
    mistakes: Sequence[tuple[str, Mistake]],
) -> str:
    """The hint for the misconception that explains all figures of this job best."""

    def gap(figures: Sequence[Figures]) -> float:
        """The largest difference from these figures, as a share of its largest one."""
        pairs = [
            (value[rank][place][key], one[key])
            for rank, steps in enumerate(figures)
            for place, one in enumerate(steps)
            for key in keys
            if key in one
        ]
        largest = max(abs(wanted) for _, wanted in pairs)
        return max(abs(got - wanted) for got, wanted in pairs) / max(LEAST, largest)

    for factor in (1e3, 1e6):
        scaled = [[{key: factor * one[key] for key in keys} for one in rank] for rank in due]
        if gap(scaled) < 0.01:
            return "units"
    gaps = [(gap(mistake(case.ranks)), name) for name, mistake in mistakes]
    least, name = min(gaps, key=lambda pair: pair[0])
    if least < 0.01:
        return name
    return "moments" if keys == ("hidden",) else "last"


def judge_hidden(run: Run) -> Problem | None:
    return judged(run, ("hidden",), HIDDEN_MISTAKES)


def judge_waiting(run: Run) -> Problem | None:
    problem = judged(run, ("waiting", "exposed"), WAITING_MISTAKES)
    return problem and (judge_hidden(run) or problem)  # what is not hidden follows from what is


def judge_recorded(run: Run) -> Problem | None:
    """The recorded job is always the same: an answer that has it by heart shows nothing."""
    if problem := judge_hidden(run):
        return problem
    if seen := judged(run, ("hidden",), HIDDEN_MISTAKES, recorded=True):
        return seen
    seen = judged(run, ("waiting", "exposed"), WAITING_MISTAKES, recorded=True)
    made = judge_waiting(run)  # it tells mistakes apart that look alike in the recorded job
    return replace(seen, hint=made.hint) if seen and made else seen


CHECK = Check(
    id="overlap",
    title="Communication behind work",
    names=("overlap",),
    to_write="the function that divides communication into three parts",
    allowed=ANYTHING,
    inputs=inputs,
    drive=drive,
    expect=expect,
    worlds=(1,),
    process_group=False,
    picture=overlap_picture,
    claims=(
        Claim("hidden is the time in which the rank communicates and computes", 6, judge_hidden),
        Claim("waiting and exposed part the rest: for a rank, or for data", 6, judge_waiting),
        Claim("so it is in traces that were recorded on three ranks", 3, judge_recorded),
    ),
    hints={
        "start": "Take one rank and one microsecond of it. Which of its events are going on then, "
        "and what do they say: does it communicate, does it compute, are data moving?",
        "shape": "Return a list with a list for each rank, and in that a dict for each step, in "
        "the order of the steps: {'hidden': seconds, 'waiting': seconds, 'exposed': seconds}.",
        "units": "Times in a trace are in microseconds; give seconds.",
        "marks": "The mark `backward` ends when the last gradient has arrived: it covers the wait "
        "for it too. A mark only gives a name to a piece of time. What shows that the rank "
        "computes?",
        "everything": "All of the communication is hidden then. Events of category user_annotation "
        "or Trace span whole steps, whatever is done in them: none of them is an operator.",
        "names": "Hardly any communication is hidden then: was all of it seen? The names of its "
        "events begin with `gloo:` or `nccl:`, those of operators with `aten::`, on any thread.",
        "beginning": "Only the beginning of a name counts: a mark that has `gloo:` or `aten::` "
        "further on in its name is neither a collective nor an operator.",
        "smaller": "The smaller of two lengths is what could overlap at best. Whether it does "
        "depends on when each begins and ends: intersect the intervals.",
        "calls": "An op of `c10d::` starts a collective, and the rank may wait in it: it is no "
        "computing.",
        "nodes": "Autograd's nodes are around operators, and the rank may wait in them: where no "
        "`aten::` event goes on inside, it does not compute.",
        "threads": "A rank computes while an operator runs, on whichever thread (`tid`).",
        "nested": "An op calls other ops, which have events of their own within its time. Merge "
        "the ops of a rank into intervals that do not overlap before you intersect.",
        "union": "Two collectives at a time are one stretch of communication: a second in which "
        "both go on is one second. Merge them first, as you merge ops.",
        "steps": "A collective can go on when its step has ended. Each step has what lies between "
        "its own begin and end, and no step what lies outside all of them.",
        "moments": "Merge this rank's collectives, and merge its ops: two lists of intervals that "
        "do not overlap within themselves. Hidden is where both are, within the step. Events are "
        "in no order.",
        "nobody": "A rank that has joined a collective first has nothing to send yet: it waits for "
        "the last one. Only from then on do data move. Who came last, and when?",
        "apart": "Where a rank computes meanwhile, nobody waits and nothing is exposed: that time "
        "is hidden already. The three parts add up to the communication.",
        "moves": "With two collectives at a time, one may still wait while the data of the other "
        "move. The link is in use then: that is not waiting.",
        "starts": "An op of `c10d::` starts a collective, and is none: the rank communicates while "
        "an event goes on whose name begins with `gloo:` or `nccl:`.",
        "broadcast": "Not every collective is an all-reduce. The names of all begin with `gloo:` "
        "or `nccl:`.",
        "clocks": "Each rank's trace has a clock of its own, and zero may be seconds away from "
        "another's. A collective ends on all ranks at the same moment. And without any clock: the "
        "rank that comes last does not wait, so which of the ranks has the shortest event?",
        "last": "The k-th collective on one rank is the k-th on every other, by the time at which "
        "it begins. Its data move for as long as it takes on the rank that came last; on any other "
        "rank, what comes before that is waiting.",
        "raised": "Which trace was it? Not every event has a `dur` or a `cat`: look at `ph`.",
    },
)
