"""The course is proved: stubs fail, solutions pass, and each wrong answer meets its hint.

And no verdict on any of them gives away what was expected.
"""

from functools import cache, partial

import pytest

from hpml.bench.instructors import flips
from hpml.checks import find, ids, judge, seeds
from hpml.course import schedule
from hpml.course.instructors import wrong_answers
from hpml.course.instructors.prove import Judge, Part, prove
from hpml.errors import UserError
from hpml.ranks import flavour

from .leaks import watched
from .suite.import_graph import check_file

COURSE = schedule.load()
EXERCISES = [exercise.id for module in COURSE.modules for exercise in module.exercises]
HERE = "tests/test_course.py"
solution = cache(wrong_answers.solution)


@pytest.fixture
def proved(request):
    """`proved(exercise, *parts, wrong="")`: its rows are good, and there is one for each part.

    Inputs are the same in each run, and new with `--all`: no run fails by what was drawn.
    """

    def prove_it(exercise: str, *parts: Part, wrong: str = "") -> None:
        name = " ".join([exercise, *parts, wrong])
        seed = None if request.config.getoption("--all") else seeds.derived(0, name)
        rows_are_good(exercise, parts, wrong, partial(judge, seed=seed))

    return prove_it


@pytest.fixture
def measured(request):
    """`measured(exercise)`: the test measures, if its check judges seconds or bytes on a link."""

    def mark(exercise: str) -> None:
        if flips.has_budget(find(exercise)):
            request.applymarker(pytest.mark.measures)

    return mark


def rows_are_good(exercise: str, parts: tuple[Part, ...], wrong: str, judge: Judge) -> None:
    if parts != ("check",) and (why := flavour.missing(find(exercise).needs)):
        pytest.skip(why)
    # One answer at a time: the tests themselves already run side by side. In brief, for a part of
    # the time: `./hpml course check` plays all wrong answers at all world sizes.
    leaks: list[str] = []
    rows = prove(
        COURSE,
        [exercise],
        find=lambda name: watched(find(name), leaks),
        judge=judge,
        workers=1,
        brief=True,
        parts=parts,
        wrong=wrong,
    )
    assert [f"{row.part} {row.name}: {row.reason}" for row in rows if not row.good] == []
    assert [row.part for row in rows] == list(parts)
    assert sorted(set(leaks)) == []


@pytest.mark.parametrize("exercise", EXERCISES)
def test_the_check_is_whole(exercise, proved):
    proved(exercise, "check")


def right(exercise: str):
    """An exercise, played again where its stub, its solution or its check is another."""
    module = COURSE.module_of(exercise)
    files = [HERE, check_file(exercise)]
    texts = [(COURSE.root / module.exercise_notebook.with_suffix(".py")).read_text()]
    mark = pytest.mark.in_turn(
        "stubs and solutions", exercise, files, solution(COURSE, exercise), *texts
    )
    return pytest.param(exercise, marks=mark)


@pytest.mark.parametrize("exercise", [right(exercise) for exercise in EXERCISES])
def test_the_stub_fails_and_the_solution_has_full_points_at_every_world_size(
    exercise, proved, measured
):
    measured(exercise)
    proved(exercise, "stub", "solution")


def wrong(answer: wrong_answers.WrongAnswer):
    """A wrong answer, played again where it, its hint or its check is another."""
    try:
        source = answer.answer(solution(COURSE, answer.exercise))
    except UserError as error:  # the test says so too
        source = str(error)
    mark = pytest.mark.in_turn(
        "wrong answers",
        f"{answer.exercise} {answer.name}",
        [HERE, check_file(answer.exercise)],
        *(source, answer.hint, answer.claim, answer.needs, str(answer.world)),
    )
    return pytest.param(answer.exercise, answer.name, marks=mark)


WRONG = [wrong(answer) for each in EXERCISES for answer in wrong_answers.read(COURSE, each)]


@pytest.mark.parametrize(("exercise", "name"), WRONG)
def test_a_wrong_answer_meets_its_hint(exercise, name, proved, measured):
    measured(exercise)
    proved(exercise, "wrong answer", wrong=name)


def test_no_check_and_no_wrong_answer_belongs_to_no_exercise():
    assert sorted(ids()) == sorted(EXERCISES)
    files = [
        path.relative_to(COURSE.root) for path in COURSE.root.glob("tests/modules/*/checks/*.toml")
    ]
    expected = [
        wrong_answers.path(module, e.id) for module in COURSE.modules for e in module.exercises
    ]
    assert sorted(files) == sorted(expected)
