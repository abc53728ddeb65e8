"""Exercise find_the_straggler: from all ranks' traces, who is late, since when, and in what?

`find_the_straggler(traces) -> (rank, step, phases) | None`. The jobs are played, and some recorded
(`_straggler_cases.py`).
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

from hpml.checks.compare import described
from hpml.checks.contract import Check, Claim, Problem, Run
from hpml.checks.kits.ready_made import ANYTHING
from hpml.modules.m03_profiling.checks._moments import own_work
from hpml.modules.m03_profiling.checks._planted_ranks import PHASES
from hpml.modules.m03_profiling.checks._side_by_side import straggler_picture
from hpml.modules.m03_profiling.checks._straggler_cases import (
    Case,
    cases,
    latest_clock,
    longest_wait,
)
from hpml.ranks import mark

Named = tuple[int, int, tuple[str, ...]] | None


def inputs(seed: int, world_size: int) -> list[list[list[str]]]:
    """For the only rank: each job's traces, by rank, as JSON."""
    return [[[json.dumps(made.events) for made in case.ranks] for case in cases(seed)]]


def drive(answer: ModuleType, given: list[list[str]]) -> list[Any]:
    """Who is named in each job; a set of phases as a list."""
    import json

    found = []
    for number, traces in enumerate(given, 1):
        mark(f"job {number} of {len(given)}, with traces of {len(traces)} ranks")
        named = answer.find_the_straggler([json.loads(text) for text in traces])
        if isinstance(named, tuple | list):
            named = [sorted(one) if isinstance(one, set | frozenset) else one for one in named]
        found.append(named)
    return found


def expect(inputs: list[Any], world_size: int) -> None:
    """None: judges make the jobs from the seed."""


def malformed(case: Case, value: Any) -> Problem | None:
    """What is neither None nor a rank, a step and phases, as a Problem."""
    if value is None:
        return None
    where = f"{case.name}: find_the_straggler returned"
    if not isinstance(value, list | tuple) or len(value) != 3:
        return Problem(f"{where} {described(value)}", "shape")
    rank, step, phases = value
    if type(rank) is not int or type(step) is not int:
        return Problem(f"{where} {described(rank)} and {described(step)}", "shape")
    if not isinstance(phases, list | tuple) or any(phase not in PHASES for phase in phases):
        return Problem(f"{where} {described(phases)} for the phases", "shape")
    return None


def named(run: Run, *, recorded: bool) -> Iterator[tuple[Case, Named, Problem | None]]:
    """Each played, or each recorded, job with who is named in it; or what was returned instead."""
    jobs = cases(run.seed)
    values = run.values[0] if isinstance(run.values[0], list) else []
    if len(values) != len(jobs):
        yield jobs[0], None, Problem(f"of {len(jobs)} jobs, {len(values)} came back", "shape")
        return
    for case, value in zip(jobs, values, strict=True):
        if case.recorded == recorded:
            problem = malformed(case, value)
            ok = value is not None and not problem
            yield case, (value[0], value[1], tuple(value[2])) if ok else None, problem


def first_problem(
    run: Run, wrong: Callable[[Case, Named], Problem | None], *, recorded: bool = False
) -> Problem | None:
    for case, one, problem in named(run, recorded=recorded):
        if problem := problem or wrong(case, one):
            return problem
    return None


def wrong_rank(case: Case, one: Named) -> Problem | None:
    if case.straggler is None or (one and one[0] == case.straggler):
        return None
    seen = f"{case.name}: {f'rank {one[0]}' if one else 'nobody'} is named"
    return Problem(seen, _rank_hint(case, one), f"rank {case.straggler}")


def _rank_hint(case: Case, one: Named) -> str:
    if one is None:
        return case.if_nobody
    mistakes = {
        "waits": longest_wait(case.ranks),
        "mean": _most_work(case),
        "clocks": latest_clock(case.ranks),
        "default": len(case.ranks) - 1,
    }
    return next((hint for hint, rank in mistakes.items() if rank == one[0]), "rank")


def _most_work(case: Case) -> int:
    """The rank with most own work over all steps, the one with a long hiccup perhaps."""
    work = [sum(own_work(made).values()) for made in case.ranks]
    return work.index(max(work))


def wrong_step(case: Case, one: Named) -> Problem | None:
    if case.straggler is None or not one or one[0] != case.straggler or one[1] == case.since:
        return None
    return Problem(
        f"{case.name}: since step {one[1]}", _step_hint(case, one[1]), f"step {case.since}"
    )


def _step_hint(case: Case, step: int) -> str:
    first = min(case.ranks[0].steps)
    if step == case.since - first and first:
        return "number"
    if step == case.since - 2:
        return "run"
    if step == first:
        return "always"
    return "off" if abs(step - case.since) == 1 else "step"


def wrong_phases(case: Case, one: Named) -> Problem | None:
    if case.straggler is None or not one or one[0] != case.straggler:
        return None
    if sorted(one[2]) == sorted(case.phases):
        return None
    seen = f"{case.name}: the phases are {', '.join(one[2]) or 'none'}"
    return Problem(seen, _phases_hint(case, one[2]), ", ".join(case.phases))


def _phases_hint(case: Case, phases: tuple[str, ...]) -> str:
    if set(phases) < set(case.phases):
        return "several"
    # Where only backward is longer, and a mark that begins with forward is around it
    if case.if_nobody == "computes" and "forward" in phases:
        return "other_names"
    return "total" if set(phases) & {"forward", "backward"} else "phases"


def wrong_blame(case: Case, one: Named) -> Problem | None:
    if case.straggler is not None or one is None:
        return None
    return Problem(f"{case.name}: rank {one[0]} is named", case.why_nobody, "nobody")


def judge_rank(run: Run) -> Problem | None:
    return first_problem(run, wrong_rank)


def judge_step(run: Run) -> Problem | None:
    return judge_rank(run) or first_problem(run, wrong_step)


def judge_phases(run: Run) -> Problem | None:
    return judge_rank(run) or first_problem(run, wrong_phases)


def judge_blame(run: Run) -> Problem | None:
    """An answer that names nobody at all shows nothing here."""
    return judge_rank(run) or first_problem(run, wrong_blame)


def judge_recorded(run: Run) -> Problem | None:
    """The recorded jobs are always the same: an answer that has them by heart shows nothing."""
    if problem := judge_rank(run):
        return problem
    for wrong in (wrong_rank, wrong_step, wrong_phases, wrong_blame):
        if problem := first_problem(run, wrong, recorded=True):
            # The made jobs tell mistakes apart that look alike in the recorded ones
            made = first_problem(run, wrong)
            return replace(problem, hint=made.hint) if made else problem
    return None


CHECK = Check(
    id="find_the_straggler",
    title="Find the straggler",
    names=("find_the_straggler",),
    to_write="the function that finds the rank that is late through its own work",
    allowed=ANYTHING,
    inputs=inputs,
    drive=drive,
    expect=expect,
    worlds=(1,),
    process_group=False,
    picture=straggler_picture,
    claims=(
        Claim("the rank that is late through its own work is named", 3, judge_rank),
        Claim("and the step since which it is late", 2, judge_step),
        Claim("and the phases in which it takes longer", 2, judge_phases),
        Claim("where no rank is late through its own work, nobody is named", 1, judge_blame),
        Claim("so it is in traces that were recorded on three ranks", 2, judge_recorded),
    ),
    hints={
        "start": "All ranks take equally long for a step: they wait for each other. So what does "
        "the one that is late do in a step, while the others wait, and where in a trace do you see "
        "each of the two?",
        "shape": "Return None, or a tuple: the rank and the number of the step as int, and a list "
        "of phases, each as it is marked: 'loading', 'transforms', 'forward', 'backward', "
        "'optimizer'.",
        "own": "The mark `backward` of a rank that is in time covers its wait for the late one, so "
        "that all marks of a step add up to the same on all ranks. Take out of each mark the time "
        "in which the rank communicates and does not compute.",
        "computes": "Which events show that a rank computes? In an op `c10d::…`, and in autograd's "
        "nodes, it may wait: they are neither communication nor computing. Only `aten::` events "
        "are operators.",
        "names": "Is communication missing? The names of its events begin with `gloo:` or `nccl:`.",
        "threads": "A rank computes while an operator runs, on whichever thread (`tid`).",
        "zero": "Rank 0 is a rank like any other, and `if rank:` is false for it. Write `is None` "
        "where you mean nobody.",
        "waits": "The longest all-reduce is on a rank that came early: it waits in there. The "
        "rank that comes last waits for nobody.",
        "mean": "A rank that once took very long has a high mean, and is not late now. Compare the "
        "ranks step by step, and look from the last step back.",
        "clocks": "Each trace has a clock of its own, with a zero of its own. Compare how long "
        "something takes, and not when it ends.",
        "default": "Is it always the last rank? Print each rank's own work in each step.",
        "rank": "Print each rank's own work in each step as a table: one row per rank. Whose is "
        "over 10 % more than any other's in the last step?",
        "number": "Steps have numbers: ProfilerStep#7 is step 7, also where it is the first one in "
        "the trace.",
        "run": "It was late once before, and then in time again. Since when is it late in every "
        "step, up to the last?",
        "always": "In the first steps nobody was late yet. Compare the ranks step by step: from "
        "the last step back, how far is it the same rank in every step?",
        "off": "Name the first step in which it is late: neither the last one before, nor the "
        "next.",
        "step": "Since when is the same rank late in every step, up to the last? Events are in no "
        "order.",
        "total": "The longest phase is not a reason: it is long on all ranks. Compare each phase "
        "with the same phase on the other ranks, without its waits.",
        "other_names": "A phase is marked with its name, and nothing else: `forward_recompute` is "
        "another mark, around backward.",
        "several": "Where a processor is slow, or a rank has more data, several phases take "
        "longer. Name each that takes over 1.2 times as long as on the others.",
        "micro_batches": "A phase may have several marks in a step, one for each micro-batch. Its "
        "own work is that of all of them.",
        "phases": "Of each phase, compare the own work since that step with the other ranks' mean "
        "in the same steps.",
        "noise": "No two ranks take equally long, and one of them is always the longest. Late is "
        "over 10 % more own work than each other rank has.",
        "link": "All ranks spend long in communication, and all equally: the network is slow, and "
        "no rank is. Communication is nobody's own work.",
        "hiccup": "One step, or two, or now this rank and now that: such a rank is not a "
        "straggler. It is the same one in each of the last steps, three at the least.",
        "pair": "Two ranks are late here, and alike: if one were in time, the others would wait "
        "all the same. Compare a rank's own work with that of each other rank, not with a mean.",
        "raised": "Which job was it? Ranks are 2 to 6, a phase can have several marks in a step, "
        "and not every event has a `dur` or a `cat`: look at `ph`.",
    },
)
