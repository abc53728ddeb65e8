"""The verdict again is the one that the mark is made from, not an attempt on the way there."""

from functools import partial
from pathlib import Path

import pytest

from hpml.checks import find
from hpml.checks.run_check import Examined, _not_gradable
from hpml.checks.verdict import Verdict
from hpml.course import schedule
from hpml.grading import again, record, secret
from hpml.grading.batch import RECORDS
from hpml.grading.judging import Judge
from hpml.grading.record import Record, Result
from hpml.ranks.parent import warm

EXERCISE = "hello_ranks"
ANSWER = f"%%answer {EXERCISE}\nmine = 1\n"


@pytest.fixture
def graded(tmp_path) -> Path:
    """A folder with the record of ada, whose answer failed."""
    secret.of_folder(tmp_path)
    (tmp_path / RECORDS).mkdir()
    result = Result(EXERCISE, "title", "00", "failed", 2, 0, "no claim holds", answer=ANSWER)
    record.write(Record("ada", "ab" * 32, (), True, (result,)), tmp_path / RECORDS)
    return tmp_path


def only(out: Path, examine, monkeypatch) -> again.Again:
    monkeypatch.setattr(again, "Judge", partial(Judge, examine=examine))
    (found,) = again.again(out, "ada", (), schedule.load(), unsafe=True)
    return found


def test_after_a_second_attempt_it_is_the_second(graded, monkeypatch):
    errors = [OSError("the grader's disk is full")]

    def examine(exercise, source: str, seed: int) -> Examined:
        if errors:
            error = errors.pop()
            return Examined(_not_gradable(find(exercise), str(error), seed), None, error)
        return Examined(Verdict(exercise, "title", "passed", (), "every claim holds", seed))

    found = only(graded, examine, monkeypatch)
    assert (found.now.status, found.now.attempts) == ("passed", 2)
    assert (found.verdict.status, found.verdict.headline) == ("passed", "every claim holds")


def test_a_fault_that_is_the_answers_is_in_the_verdict(graded, monkeypatch):
    def examine(exercise, source: str, seed: int) -> Examined:
        error = warm.ServerDied("went away", began=True)
        return Examined(_not_gradable(find(exercise), str(error), seed), None, error)

    found = only(graded, examine, monkeypatch)
    assert (found.now.status, found.verdict.status) == ("failed", "failed")
    assert found.verdict.headline == found.now.headline
