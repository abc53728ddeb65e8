"""Is luck in a verdict? Right answers, graded again and again on a machine that is kept busy.

A check that judges bytes or seconds reads what the kernel counted, and that depends on the load. So
the solution of each such exercise is graded many times, in turn as a learner's check runs it and as
the grader does, while other processes compute. A verdict of "failed" is a flip: there are to be
none. Where a claim could not be judged, the verdict says so, and that is not a flip.
"""

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from hpml.bench.table import Row, Table, machine_conditions
from hpml.checks import find
from hpml.checks.contract import Check
from hpml.checks.run_check import examine
from hpml.checks.verdict import Verdict
from hpml.course import schedule
from hpml.course.instructors import wrong_answers
from hpml.errors import UserError
from hpml.ranks import flavour

TIMES, BUSY = 50, 4


def has_budget(check: Check) -> bool:
    """Whether a claim of it may rest on seconds, or on what went over a link."""
    links = any(stage.link for stage in check.stages) or check.link
    return bool(check.timed_at or links or any(claim.of_calls for claim in check.claims))


def bench(
    exercises: Sequence[str] = (),
    times: int = TIMES,
    busy: int = BUSY,
    say: Callable[[str], None] = print,
) -> Table:
    """Grade the solutions of `exercises` (default: of all with a budget) `times` times each, while
    `busy` processes compute. Raises UserError for an unknown exercise. `say` gets a line for each
    verdict that is not "passed".
    """
    course = schedule.load()
    for name in exercises:
        course.exercise(name)  # its error names the valid ids
    ids = exercises or [exercise.id for module in course.modules for exercise in module.exercises]
    checks = [find(name) for name in ids]
    checks = [check for check in checks if exercises or has_budget(check)]
    checks = [check for check in checks if not flavour.missing(check.needs)]
    if not checks:
        raise UserError("no exercise with a budget can be judged on this machine")
    rows = []
    with kept_busy(busy):
        for check in checks:
            source = wrong_answers.solution(course, check.id)
            verdicts = list(gradings(check, source, times, say))
            failed = sum(not verdict.passed and not open_only(verdict) for verdict in verdicts)
            rows.append(Row(f"{check.id}: failed", [failed], f"of {times}", target="0"))
            unjudged = sum(map(open_only, verdicts))
            if unjudged:
                rows.append(Row(f"{check.id}: a claim not judged", [unjudged], f"of {times}"))
    conditions = machine_conditions() | {"processes that compute meanwhile": str(busy)}
    return Table("Right answers, graded again and again under load", rows, conditions)


def gradings(
    check: Check, source: str, times: int, say: Callable[[str], None]
) -> Iterator[Verdict]:
    """The verdicts on one answer, each with inputs of its own."""
    for number in range(1, times + 1):
        as_graded = number % 2 == 0
        verdict = examine(check, source, proxied=as_graded, delayed=as_graded).verdict
        if not verdict.passed:
            first = next(claim for claim in verdict.claims if not claim.passed)
            say(f"{check.id}, grading {number}, seed {verdict.seed}: {first.full_message}")
        yield verdict


def open_only(verdict: Verdict) -> bool:
    """Whether nothing failed, and something could not be judged."""
    return verdict.status == "not gradable" and verdict.nothing_failed


@contextmanager
def kept_busy(processes: int) -> Iterator[None]:
    """`processes` that compute until the context ends."""
    computing = [
        multiprocessing.get_context("fork").Process(target=_compute, daemon=True)
        for _ in range(processes)
    ]
    for process in computing:
        process.start()
    try:
        yield
    finally:
        for process in computing:
            process.kill()
            process.join()


def _compute() -> None:
    while True:
        pass
