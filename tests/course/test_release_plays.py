"""Exercises whose plays a release has recorded are judged there as they are here."""

import json
import os
import subprocess
import sys

import pytest

from hpml.checks.kits.drawn import all_drawn, recordings
from hpml.course import schedule
from hpml.course.instructors import wrong_answers

COURSE = schedule.load()
EXERCISES = sorted(plays.exercise for plays in all_drawn().values())
SHOWN = 6  # wrong answers of each exercise, with hints that differ

JUDGE = """
import json, sys
import hpml
from hpml.checks import find, judge

exercise, *sources = json.load(sys.stdin)
check = find(exercise)
verdicts = []
for seed, source in enumerate(sources):
    verdict = judge(check, source, seed=seed)
    failed = [claim.hint_key for claim in verdict.claims if not claim.passed]
    verdicts.append([verdict.status, next(iter(failed), "")])
picture = check.picture and check.picture(check, sources[0]).png[:4].hex()
json.dump([hpml.__file__, verdicts, picture], sys.stdout)
"""


def shown_wrong(exercise: str) -> list[wrong_answers.WrongAnswer]:
    """Some of its catalogue, each with another hint."""
    found = {wrong.hint: wrong for wrong in wrong_answers.read(COURSE, exercise)}
    return [found[hint] for hint in sorted(found) if hint != "import"][:SHOWN]


@pytest.mark.parametrize("exercise", EXERCISES)
def test_a_release_judges_by_its_recordings(exercise, released):
    right, wrong = wrong_answers.solution(COURSE, exercise), shown_wrong(exercise)
    answers = [right, *(each.answer(right) for each in wrong)]
    done = subprocess.run(
        [sys.executable, "-c", JUDGE],
        input=json.dumps([exercise, *answers]),
        env={**os.environ, "PYTHONPATH": str(released / "src")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    where, verdicts, picture = json.loads(done.stdout)
    assert where == str(released / "src/hpml/__init__.py")
    assert verdicts[0] == ["passed", ""]
    assert verdicts[1:] == [["failed", each.hint] for each in wrong]
    assert not [*released.rglob("checks/instructors")]
    assert picture in (None, b"\x89PNG".hex())


def test_recordings_are_the_same_each_time(made):
    again = {f"src/hpml/{path}": data for path, data in recordings().items()}
    assert again == {path: made[path].data for path in again}
