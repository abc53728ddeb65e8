"""The course is proved: stubs fail, solutions pass, and each wrong answer meets its hint.

And no verdict on any of them gives away what was expected.
"""

import pytest

from hpml.checks import find, ids, judge
from hpml.course import schedule
from hpml.course.prove import prove
from hpml.course.wrong_answers import path
from hpml.ranks import flavour

from .leaks import watched

COURSE = schedule.load()
EXERCISES = [exercise.id for module in COURSE.modules for exercise in module.exercises]


@pytest.mark.parametrize("exercise", EXERCISES)
def test_every_row_of_the_exercise_is_good(exercise):
    if why := flavour.missing(find(exercise).needs):
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
    )
    assert [f"{row.part} {row.name}: {row.reason}" for row in rows if not row.good] == []
    assert {row.part for row in rows} == {"check", "stub", "solution", "wrong answer"}
    assert sorted(set(leaks)) == []


def test_no_check_and_no_wrong_answer_belongs_to_no_exercise():
    assert sorted(ids()) == sorted(EXERCISES)
    files = [path.relative_to(COURSE.root) for path in COURSE.root.glob("tests/checks/*/*.toml")]
    expected = [path(module, e.id) for module in COURSE.modules for e in module.exercises]
    assert sorted(files) == sorted(expected)
