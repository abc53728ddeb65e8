"""The course's own answer is shown after a pass or the last hint, beside the learner's own."""

from dataclasses import replace
from pathlib import Path

import pytest

from hpml.checks.verdict import ClaimResult, Verdict
from hpml.course import hints, progress, reference, schedule
from hpml.errors import UserError

COURSE = schedule.load()
MINE = "%%answer hello_ranks\ndef hello(number):\n    return number\n"


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HPML_HOME", str(tmp_path))


def opened(own: str = MINE) -> reference.Reference:
    return reference.opened(COURSE, "hello_ranks", "./hpml hint hello_ranks", own)


def test_who_has_neither_passed_nor_read_the_hints_is_told_what_is_still_to_do() -> None:
    with pytest.raises(UserError, match="hello_ranks has not passed yet, and 3 hints are left: "):
        opened()
    for _ in range(2):
        hints.following("hello_ranks", "again")
    with pytest.raises(UserError, match="and 1 hint is left: "):
        opened()
    assert not progress.read()["hello_ranks"]["answer_first"]


def test_after_the_last_hint_it_is_there_and_that_is_noted_and_marks_nothing() -> None:
    for _ in range(4):  # with the one that begins them again
        hints.following("hello_ranks", "again")
    shown = opened().as_text()
    assert shown.endswith(reference.NOTED)
    entry = progress.read()["hello_ranks"]
    assert entry["answer_first"]
    assert (entry["passed"], entry["earned"]) == (False, 0)


def test_after_a_pass_it_is_shown_with_its_comments_and_a_diff_and_nothing_is_noted() -> None:
    claim = ClaimResult("it holds", True, 2)
    progress.record(Verdict("hello_ranks", "", "passed", (claim,), "every claim holds", 1))
    shown = opened()
    assert "    dist.all_reduce(total)\n" in shown.source
    assert "SOLUTION" not in shown.source
    assert "-    return number" in shown.diff.splitlines()
    assert "+    dist.all_reduce(total)" in shown.diff.splitlines()
    assert shown.notes == ()
    assert f"```diff\n{shown.diff}\n```" in shown.as_markdown()
    assert not progress.read()["hello_ranks"]["answer_first"]
    same = opened(shown.source)
    assert (same.diff, same.notes) == ("", ("Yours is the same, line by line.",))


def test_every_exercise_has_one() -> None:
    for module in COURSE.modules:
        for exercise in module.exercises:
            assert "### BEGIN" in reference.answer(COURSE, exercise.id).source


def test_a_course_without_answers_says_so(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="this course was handed out without its answers"):
        reference.opened(replace(COURSE, root=tmp_path), "hello_ranks", "", MINE)
