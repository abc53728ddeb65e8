"""Prove an exercise before it is handed out: its stub, its solution, and the wrong answers.

A check that passes a wrong answer, or fails the right one, is worse than none. So for each exercise
the stub must fail with the first step as its hint, the solution must have full points at every
world size, and each wrong answer must fail with its intended hint. If this machine cannot judge a
claim, the others are proved and the row reports it; so does the row of an answer whose ranks cannot
run here because Horovod is not installed.

The wrong answers are edits of the solution: see `hpml.course.instructors.wrong_answers`.
"""

import ast
import time
from collections.abc import Callable, Container, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

from hpml.answer import Answer, read
from hpml.checks.contract import Check
from hpml.checks.run_check import GENERAL_HINTS
from hpml.checks.verdict import Verdict
from hpml.course.instructors import paired, wrong_answers
from hpml.course.instructors.first_failure import FirstFailure, first_failure
from hpml.course.instructors.wrong_answers import WrongAnswer
from hpml.course.schedule import Course, Exercise, Module
from hpml.errors import UserError
from hpml.ranks import flavour

WORLDS = (1, 2, 3, 4)
FEWEST = 4  # wrong answers per exercise
FEWEST_HINTS = 3

Part = Literal["check", "stub", "solution", "wrong answer"]
PARTS: tuple[Part, ...] = ("check", "stub", "solution", "wrong answer")

Find = Callable[[str], Check]
Judge = Callable[..., Verdict]  # (check, source), and perhaps worlds=


@dataclass(frozen=True)
class Row:
    """One proof about an exercise. `reason` is empty if it holds."""

    exercise: str
    part: Part
    name: str
    shows: str  # the outcome in a few words
    reason: str = ""
    seconds: float = 0.0
    wrong: str = ""  # what is wrong in a wrong answer, as its table describes it
    first_failure: FirstFailure | None = None  # what its learner reads

    @property
    def good(self) -> bool:
        return not self.reason


def prove(
    course: Course,
    exercises: Iterable[str] = (),
    *,
    find: Find,
    judge: Judge,
    ids: Iterable[str] = (),
    workers: int = 2,
    on_row: Callable[[Row], None] = lambda row: None,
    brief: bool = False,
    parts: Container[Part] = PARTS,
    wrong: str = "",
    seeds: Sequence[int] = (),
) -> list[Row]:
    """A row for each proof about the exercises (default: all of the course), in order.

    `find` returns a check by id, `judge` a verdict on an answer's source. `ids` are those of all
    existing checks: when the whole course is proved, a check that course.toml lacks is a bad row,
    and so are wrong answers to no exercise. `workers` answers are judged at a time; `on_row` gets
    the rows in order, each as soon as possible. With `brief`, a wrong answer is judged at its
    `world` size alone, and at all sizes only if it does not fail there as it should. Only `parts`
    are proved, and of the wrong answers only `wrong`, if it is named. With `seeds`, a wrong answer
    must fail with each of them: what decides is then in every play, and not drawn now and then.
    """
    wanted = list(exercises)
    chosen = [
        (module, exercise)
        for module in course.modules
        for exercise in module.exercises
        if not wanted or exercise.id in wanted
    ]
    for name in wanted:
        course.exercise(name)  # its error names the valid ids
    rows: list[Row] = []
    with ThreadPoolExecutor(workers) as pool:
        tasks = [
            task
            for pair in chosen
            for part, name, task in _tasks(course, *pair, find, judge, brief, seeds)
            if part in parts and (part != "wrong answer" or wrong in ("", name))
        ]
        if not wanted:
            tasks += [partial(_same, row) for row in _strays(course, ids)]
        try:
            for row in pool.map(_timed, tasks):
                rows.append(row)
                on_row(row)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return rows


def _same(row: Row) -> Row:
    return row


Task = Callable[[], Row]
Named = tuple[Part, str, Task]  # the part and the name of the row that the task makes


def _tasks(
    course: Course,
    module: Module,
    exercise: Exercise,
    find: Find,
    judge: Judge,
    brief: bool,
    seeds: Sequence[int],
) -> list[Named]:
    def known(*rows: Row) -> list[Named]:
        return [(row.part, row.name, partial(_same, row)) for row in rows]

    try:
        check = find(exercise.id)
    except Exception as error:
        return known(Row(exercise.id, "check", exercise.id, "", f"no check: {_line(error)}"))
    try:
        wrong = wrong_answers.read(course, exercise.id)
    except UserError as error:
        unread = Row(exercise.id, "wrong answer", "*", "", str(error))
        return known(*_prove_check(course, module, exercise, check, FEWEST), unread)
    rows = known(*_prove_check(course, module, exercise, check, len(wrong)))
    if missing := flavour.missing(check.needs):
        unproved: list[tuple[Part, str]] = [
            ("stub", module.exercise_notebook.name),
            ("solution", module.solution.name),
        ]
        shows = f"not gradable: {missing}"
        rows += known(*(Row(check.id, part, name, shows) for part, name in unproved))
        wrong_rows = (_row_of(answer, check) for answer in wrong)
        return rows + known(*(replace(row, shows=shows) for row in wrong_rows))
    right: Named = (
        "solution",
        module.solution.name,
        lambda: _prove_solution(course, module, check, judge),
    )
    if not check.claims:  # nothing to judge yet, but its files can be inspected
        return [*rows, right]
    solution = cache(partial(wrong_answers.solution, course, exercise.id))
    return [
        *rows,
        (
            "stub",
            module.exercise_notebook.name,
            lambda: _prove_stub(course, module, check, judge),
        ),
        right,
        *(
            (
                "wrong answer",
                answer.name,
                partial(_prove_wrong, answer, solution, check, judge, brief, seeds),
            )
            for answer in wrong
        ),
    ]


def _strays(course: Course, ids: Iterable[str]) -> list[Row]:
    listed = [(module, exercise.id) for module in course.modules for exercise in module.exercises]
    checks = sorted(set(ids) - {exercise for _, exercise in listed})
    files = {wrong_answers.path(module, exercise) for module, exercise in listed}
    found = {
        path.relative_to(course.root)
        for path in course.root.glob("tests/modules/m*/checks/wrong_*.toml")
    }
    return [
        *(Row(name, "check", name, "", "course.toml does not list it") for name in checks),
        *(
            Row(path.stem, "wrong answer", "*", "", f"{path}: course.toml has no such exercise")
            for path in sorted(found - files)
        ),
    ]


def _prove_check(
    course: Course, module: Module, exercise: Exercise, check: Check, wrong: int
) -> list[Row]:
    """A row for each fault of the check itself, or one good row if it has none."""
    names = [claim.name for claim in check.claims]
    played_right = check.worlds == WORLDS or (check.worlds == (1,) and not check.process_group)
    file = wrong_answers.path(module, exercise.id)
    test = file.with_name(f"test_{exercise.id}.py")
    faults = [
        (check.id != exercise.id, f"its id is {check.id!r}, course.toml has {exercise.id!r}"),
        (not names, "it has no claims"),
        (len(set(names)) < len(names), "two of its claims have one name"),
        (any(claim.points < 1 for claim in check.claims), "a claim is worth no points"),
        (
            check.points != exercise.points,
            f"its claims are worth {check.points} points, its file reads as {exercise.points}: "
            "write each claim's points as a number",
        ),
        (not check.hints.get("start", "").strip(), 'it has no hint "start"'),
        (
            len(check.hints) < FEWEST_HINTS,
            f"hints: {len(check.hints)}, expected at least {FEWEST_HINTS}",
        ),
        (
            any(not text.strip() for key, text in check.hints.items() if key != "start"),
            "a hint is empty",
        ),
        (
            not played_right,
            f"it is played at world sizes {check.worlds}, expected {WORLDS}, or (1,) without ranks",
        ),
        (check.title == check.id, "its title is its id: say what is claimed"),
        (not (course.root / test).is_file(), f"{test} is missing"),
        (
            exercise.id not in _keys_of_steps(exercise.check.with_name("_steps.py")),
            f"{exercise.check.parent.parent.name}/checks/_steps.py does not say how to go on",
        ),
        (
            not _is_answered(course.root / file.parents[1] / "honest", exercise.id),
            f"{file.parents[1] / 'honest'} has no right answer in a style that few write",
        ),
        (
            not (check.to_write and check.allowed),
            "it does not say what is to be written and what may be used: to_write, allowed",
        ),
        (
            bool(check.to_write and check.allowed) and not _has_its_rules(course, module, check),
            f"{module.solution.with_suffix('.py')}: below the title ## `{check.id}`, write: "
            f"{check.rules_as_text}",
        ),
        (wrong < FEWEST, f"{file}: {wrong} wrong answers, expected at least {FEWEST}"),
    ]
    shows = f"{check.points} points, {len(check.hints)} hints, {wrong} wrong answers"
    row = Row(exercise.id, "check", check.title, shows)
    return [replace(row, reason=reason) for faulty, reason in faults if faulty] or [row]


def _keys_of_steps(file: Path) -> set[str]:
    """The exercises for which a module's `_steps.py` says how to go on."""
    if not file.is_file():
        return set()
    tables = [
        node.value
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)
    ]
    return {str(getattr(key, "value", "")) for table in tables for key in table.keys}


def _is_answered(folder: Path, exercise: str) -> bool:
    """Whether a file in this folder is an answer to the exercise."""
    first = f"# %%answer {exercise}\n"
    return any(path.read_text(encoding="utf-8").startswith(first) for path in folder.glob("*.py"))


def _has_its_rules(course: Course, module: Module, check: Check) -> bool:
    """Whether a paragraph of the exercise's text is the line of what may be used."""
    for cell in paired.read_script(course.root / module.solution.with_suffix(".py")).cells:
        if cell.cell_type == "markdown" and cell.source.startswith(f"## `{check.id}`"):
            paragraphs = [" ".join(text.split()) for text in cell.source.split("\n\n")]
            return check.rules_as_text in paragraphs
    return False


def _prove_stub(course: Course, module: Module, check: Check, judge: Judge) -> Row:
    row = Row(check.id, "stub", module.exercise_notebook.name, "")
    verdict, row = _judged(
        row, check, judge, lambda: _answer(course, module, "stub", check.id).source
    )
    if verdict is None:
        return row
    # A stub's verdict must give the hint for the first step, not for a later consequence.
    hint = verdict.claims[0].hint_key if verdict.claims else ""
    if verdict.status != "failed":
        reason = f"it is {verdict.status}, expected to fail: {verdict.headline}"
    elif verdict.earned:
        reason = f"it earns {verdict.earned} points"
    elif hint != "start" or verdict.cause != "unwritten":
        reason = f"it does not say what to do (hint {hint or 'none'}): {verdict.headline}"
    else:
        reason = ""
    return replace(row, shows=f"{verdict.status}, hint {hint}", reason=reason)


def _prove_solution(course: Course, module: Module, check: Check, judge: Judge) -> Row:
    row = Row(check.id, "solution", module.solution.name, "")
    try:
        answer = _answer(course, module, "solution", check.id)
    except UserError as error:
        return replace(row, reason=str(error))
    if answer.is_stub:
        what = "its answer is still a stub: write it between BEGIN and END SOLUTION"
        return replace(row, reason=what)
    verdict, row = _judged(row, check, judge, lambda: answer.source)
    if verdict is None:
        return row
    worlds = ", ".join(str(world) for world in check.worlds)
    shows = f"{verdict.earned} of {verdict.points} points at world sizes {worlds}"
    if verdict.passed and verdict.earned == check.points:
        return replace(row, shows=shows)
    if verdict.nothing_failed:  # some claims could not be judged
        return replace(row, shows=f"{shows}; {_unjudged(verdict)}")
    missed = next((claim for claim in verdict.claims if not claim.passed), None)
    what = f"{missed.name}: {missed.full_message}" if missed else verdict.headline
    at = f" at world size {missed.world_size}" if missed and missed.world_size else ""
    cause = "" if verdict.cause == "claims" else f"{verdict.headline}; "
    return replace(row, shows=shows, reason=f"{verdict.status}{at}: {cause}{what}")


def _prove_wrong(
    wrong: WrongAnswer,
    solution: Callable[[], str],
    check: Check,
    judge: Judge,
    brief: bool,
    seeds: Sequence[int],
) -> Row:
    row = None
    for seed in seeds:
        row = _prove_wrong(wrong, solution, check, partial(judge, seed=seed), brief, ())
        if not row.good:
            return replace(row, reason=f"with seed {seed}: {row.reason}")
    if row is not None:
        return replace(row, shows=f"{row.shows}, with {len(seeds)} seeds")
    if brief and check.worlds == WORLDS:
        row = _prove_wrong_by(wrong, solution, check, partial(judge, worlds=(wrong.world,)))
        if row.good and not row.shows.startswith("not gradable"):
            return row
    return _prove_wrong_by(wrong, solution, check, judge)


def _prove_wrong_by(
    wrong: WrongAnswer, solution: Callable[[], str], check: Check, judge: Judge
) -> Row:
    row = _row_of(wrong, check)
    if wrong.hint not in {*check.hints, *GENERAL_HINTS}:
        known = ", ".join(check.hints)
        return replace(row, reason=f"it names the hint {wrong.hint!r}, the check has {known}")
    verdict, row = _judged(row, check, judge, lambda: wrong.answer(solution()))
    if verdict is None:
        return row
    row = replace(row, first_failure=first_failure(verdict))
    if wrong.needs and verdict.status == "not gradable" and verdict.nothing_failed:
        return replace(row, shows=f"not gradable without {wrong.needs}; {_unjudged(verdict)}")
    failed = [claim for claim in verdict.claims if not claim.passed]
    seen = failed[0].hint_key if failed else ""
    shows = f"{verdict.status}, hint {seen}" if failed else verdict.status
    if verdict.status != "failed" or not failed:
        reason = f"it is {verdict.status}: the check does not see what is wrong"
        if verdict.status == "not gradable":
            reason = verdict.headline
    elif seen != wrong.hint:
        reason = f"its hint is {seen!r}, meant was {wrong.hint!r}: {failed[0].full_message}"
        if verdict.cause != "claims":
            reason += f" ({verdict.headline})"
    elif wrong.claim and wrong.claim != failed[0].name:
        reason = f"the first claim to fail is {failed[0].name!r}, meant was {wrong.claim!r}"
    else:
        reason = ""
    return replace(row, shows=shows, reason=reason)


def _row_of(wrong: WrongAnswer, check: Check) -> Row:
    return Row(check.id, "wrong answer", wrong.name, "", wrong=wrong.wrong)


def _unjudged(verdict: Verdict) -> str:
    """Why the verdict's first unjudged claim could not be judged; there must be one."""
    return next(claim.message for claim in verdict.claims if not claim.judged)


def _answer(
    course: Course, module: Module, kind: Literal["stub", "solution"], exercise: str
) -> Answer:
    """An answer in the script that it is edited in, or in the one generated from it."""
    path = module.solution if kind == "solution" else module.exercise_notebook
    found = {answer.exercise: answer for answer in read(course.root / path.with_suffix(".py"))}
    if exercise not in found:
        raise UserError(f"{path.with_suffix('.py')} has no %%answer {exercise}")
    return found[exercise]


def _judged(
    row: Row, check: Check, judge: Judge, source: Callable[[], str]
) -> tuple[Verdict | None, Row]:
    """The verdict and `row`; if judging raised, None and `row` with the reason."""
    try:
        return judge(check, source()), row
    except UserError as error:
        return None, replace(row, reason=_line(error))
    except Exception as error:  # a fault of the check: what this command looks for
        return None, replace(row, reason=f"judging it failed: {_line(error)}")


def _timed(task: Task) -> Row:
    began = time.monotonic()
    return replace(task(), seconds=time.monotonic() - began)


def _line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, UserError) else f"{type(error).__name__}: {text}"


def record(rows: Sequence[Row]) -> dict[str, Any]:
    """The table as JSON-ready plain data."""
    return {
        "good": all(row.good for row in rows),
        "rows": [{**asdict(row), "good": row.good} for row in rows],
    }
