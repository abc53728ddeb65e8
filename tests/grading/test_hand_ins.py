"""One person, several hand-ins: of each exercise the newest counts, in whatever order they come."""

from pathlib import Path

import pytest

from hpml.answer import Answer
from hpml.course import schedule
from hpml.grading import again, batch, record, secret
from hpml.grading.judging import Judge
from hpml.grading.submission import Submission

COURSE = schedule.load()
EXERCISES = ("hello_ranks", "read_queue")


def hand_in(name: str = "una", unread: tuple[str, ...] = (), **bodies: str) -> Submission:
    answers = {
        exercise: Answer(exercise, f"%%answer {exercise}\n{text}\n", Path(f"{name}.ipynb"), 1, None)
        for exercise, text in bodies.items()
    }
    refused = f"{name}.ipynb: not JSON" if unread else ""
    return Submission(
        "una", (Path(f"{name}.ipynb"),), answers, unread=dict.fromkeys(unread, "x"), refused=refused
    )


FIRST = hand_in("una", hello_ranks="first = 1")
LATE = hand_in("late", read_queue="late = 1")


class Silent:
    def started(self, total: int, kept: int) -> None:
        pass

    def graded(self, *_: object) -> None:
        pass


@pytest.fixture
def graded(tmp_path):
    """Grades hand-ins of Una, one after the other, into one folder; returns the last record."""

    def grade(*hand_ins: Submission) -> record.Record:
        for number, each in enumerate(hand_ins):
            judge = Judge(COURSE, EXERCISES, unsafe=True)
            (found,) = batch.grade([each], judge, tmp_path, Silent(), resume=number > 0)
            assert [found] == batch.merge(tmp_path)[0]
        return found

    return grade


def answers(of: record.Record) -> list[str]:
    return [result.answer.partition("\n")[2].strip() or result.status for result in of.results]


def test_a_late_notebook_given_alone_adds_to_what_was_handed_in(graded):
    found = graded(FIRST, LATE)
    assert answers(found) == ["first = 1", "late = 1"]
    assert found.files == ("una.ipynb", "late.ipynb")
    assert any("newest" in note for note in found.notes)


def test_the_newest_answer_counts_and_an_old_hand_in_is_known_again(graded):
    newer = hand_in("late", hello_ranks="second = 2")
    found = graded(FIRST, newer, FIRST)
    assert answers(found) == ["second = 2", "missing"]
    assert (found.digest, found.earlier) == (newer.digest, (FIRST.digest,))


def test_a_stub_and_an_empty_notebook_take_nothing_away(graded):
    assert answers(graded(FIRST, hand_in("empty"))) == ["first = 1", "missing"]


def test_a_file_that_cannot_be_read_takes_nothing_away_and_is_named(graded):
    found = graded(FIRST, hand_in("broken", unread=EXERCISES))
    assert answers(found) == ["first = 1", "refused"]
    assert (found.refused, "broken.ipynb: not JSON" in found.notes) == ("", True)


def test_the_file_that_was_asked_for_again_counts(graded):
    found = graded(hand_in("broken", unread=EXERCISES), FIRST)
    assert answers(found) == ["first = 1", "missing"]
    assert found.refused == ""


def test_each_answer_keeps_the_inputs_of_its_own_hand_in(graded, tmp_path, monkeypatch):
    graded(FIRST, LATE)
    asked = []
    monkeypatch.setattr(secret, "seed", lambda *of: asked.append(of[1:]) or 1)
    for each in again.again(tmp_path, "una", (), COURSE, unsafe=True):
        assert each.same
    assert asked == [
        ("una", "hello_ranks", FIRST.digest),
        ("una", "read_queue", LATE.digest),
    ]
