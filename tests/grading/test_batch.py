"""Many submissions into one folder: kept, gone on with, shared out, and never graded twice.

Without sandboxes, so that it takes seconds; the sandbox has tests of its own.
"""

import contextlib
import errno
import fcntl
import json
import multiprocessing
import os
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from hpml import answer as answers
from hpml.answer import Answer
from hpml.checks.registry import ids
from hpml.course import schedule
from hpml.errors import UserError
from hpml.grading import batch, outputs, record, secret, workers
from hpml.grading.judging import Judge
from hpml.grading.submission import Submission

COURSE = schedule.load()


class Heard:
    """A listener that keeps what it hears."""

    def __init__(self) -> None:
        self.began: list[tuple[int, int]] = []
        self.people: list[str] = []

    def started(self, total: int, kept: int) -> None:
        self.began.append((total, kept))

    def graded(self, record, done: int, total: int, elapsed: float) -> None:
        assert 1 <= done <= total
        assert elapsed > 0
        self.people.append(record.person)


def submission(person: str, source: str = "def hello(numbers):\n    return 0\n") -> Submission:
    text = f"%%answer hello_ranks\n{source}"
    answer = Answer("hello_ranks", text, Path(f"{person}.ipynb"), 1, None)
    return Submission(person, answers={"hello_ranks": answer})


def judge(**options) -> Judge:
    return Judge(COURSE, **{"exercises": ("hello_ranks",), "unsafe": True} | options)


def grade(submissions, out, heard=None, **options):
    by = options.pop("judge", judge())
    return batch.grade(submissions, by, out, heard or Heard(), **options)


CLASS = [
    submission("cy"),
    submission("ada"),
    Submission("bo", refused="bo.ipynb: not JSON", unread=dict.fromkeys(ids(), "not JSON")),
]


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """A class graded by two processes: the folder, what was returned, what was heard."""
    out, heard = tmp_path_factory.mktemp("out"), Heard()
    return out, grade(CLASS, out, heard, jobs=2), heard


def test_records_come_back_by_person_and_lie_in_the_folder(graded):
    out, found, heard = graded
    assert [each.person for each in found] == ["ada", "bo", "cy"]
    assert sorted(heard.people) == ["ada", "bo", "cy"]
    assert heard.began == [(3, 0)]
    assert record.read_folder(out / batch.RECORDS) == found
    assert [each.results[0].status for each in found] == ["failed", "refused", "failed"]
    assert json.loads((out / batch.MANIFEST).read_text())["people"] == ["ada", "bo", "cy"]


def test_no_process_is_left(graded):
    workers_left = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it ended just now
            # Itself, what workers are forked from stays
            if "forkserver" in " ".join(process.cmdline()) and process.ppid() != os.getpid():
                workers_left.append(process)
    assert workers_left == []


def copied(graded, to: Path) -> Path:
    (to / batch.RECORDS).mkdir(parents=True)
    for path in [
        batch.MANIFEST,
        secret.FILE,
        *(f"{batch.RECORDS}/{p}.json" for p in ("ada", "bo", "cy")),
    ]:
        (to / path).write_bytes((graded[0] / path).read_bytes())
    return to


def test_what_is_graded_is_kept_and_what_was_handed_in_anew_is_not(graded, tmp_path):
    out, heard = copied(graded, tmp_path / "out"), Heard()
    (out / batch.RECORDS / "cy.json").unlink()
    anew = [submission("ada", "def hello(numbers):\n    return 1\n"), *CLASS[::2], submission("di")]
    found = grade(anew, out, heard, resume=True)
    assert heard.began == [(4, 1)]
    assert sorted(heard.people) == ["ada", "cy", "di"]
    assert found[1] == graded[1][1]
    assert "return 1" in found[0].results[0].answer
    assert (out / secret.FILE).read_bytes() == (graded[0] / secret.FILE).read_bytes()


def test_what_could_not_be_graded_is_tried_again(graded, tmp_path):
    out, heard = copied(graded, tmp_path / "out"), Heard()
    ada = graded[1][0]
    spoilt = replace(ada, results=(replace(ada.results[0], status="not gradable"),))
    record.write(spoilt, out / batch.RECORDS)
    found = grade(CLASS, out, heard, resume=True)
    assert heard.people == ["ada"]
    assert found[0].results[0].status == "failed"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "holds a grading already: --resume goes on with it"),
        ({"part": (1, 2), "judge": judge(exercises=("ddp",))}, "begun with the exercises hello"),
        ({"resume": True, "judge": judge(unsafe=False)}, "was begun with --unsafe"),
        ({"resume": True, "judge": judge(core=True)}, "was begun without --core"),
    ],
)
def test_a_folder_with_another_grading_is_refused(graded, tmp_path, options, said):
    out = copied(graded, tmp_path / "out")
    before = {path: path.read_bytes() for path in out.rglob("*.json")}
    with pytest.raises(UserError, match=said):
        grade(CLASS, out, **options)
    assert {path: path.read_bytes() for path in out.rglob("*.json")} == before


def test_parts_share_a_folder_and_merge_says_who_is_missing(tmp_path):
    out = tmp_path / "out"
    first = grade(CLASS, out, part=(1, 2))
    found, waiting = batch.merge(out)
    assert ([each.person for each in first], waiting) == (["ada", "cy"], ["bo"])
    second = grade(CLASS, out, part=(2, 2))
    found, waiting = batch.merge(out)
    assert (sorted(found, key=lambda r: r.person), waiting) == (
        sorted([*first, *second], key=lambda r: r.person),
        [],
    )


def test_a_late_module_is_added_and_nobody_is_graded_twice(graded, tmp_path):
    out, heard = copied(graded, tmp_path / "out"), Heard()
    late = Answer("read_queue", "%%answer read_queue\nread = 1\n", Path("di.ipynb"), 1, None)
    class_ = [*CLASS, Submission("di", answers={"read_queue": late})]
    two = judge(exercises=("hello_ranks", "read_queue"))
    found = grade(class_, out, heard, resume=True, judge=two)
    assert heard.began == [(4, 0)]
    assert [[r.status for r in each.results] for each in found] == [
        ["failed", "missing"],
        ["refused", "refused"],
        ["failed", "missing"],
        ["missing", "failed"],
    ]
    assert found[0].results[0] == graded[1][0].results[0], "kept as it was"
    assert batch.merge(out) == (found, [])
    again = Heard()
    fewer = judge(exercises=("hello_ranks",))
    assert grade(class_, out, again, resume=True, judge=fewer) == found
    assert again.began == [(4, 4)]


def test_who_is_graded_alone_later_joins_the_others(graded, tmp_path):
    out = copied(graded, tmp_path / "out")
    (late,) = grade([submission("aa")], out, resume=True)
    assert batch.merge(out) == ([late, *graded[1]], [])
    two = judge(exercises=("hello_ranks", "read_queue"))
    (di,) = grade([submission("di")], out, resume=True, judge=two)
    found, waiting = batch.merge(out)
    assert (found[-1], waiting) == (di, [])
    assert [each.results[0] for each in found[:4]] == [
        each.results[0] for each in (late, *graded[1])
    ], "what is graded of them is there"
    # What nobody had answered then is missing, or in a file that could not be read
    assert [each.results[1].status for each in found] == [
        "missing", "missing", "refused", "missing", "missing",
    ]  # fmt: skip
    assert len({each.points for each in found}) == 1, "one table has one maximum"


def test_with_only_nobody_is_taken_to_have_answered_nothing_else(tmp_path):
    grade(CLASS, tmp_path, only=True)
    two = judge(exercises=("hello_ranks", "read_queue"))
    with pytest.raises(UserError, match="3 of its people are not given now"):
        grade([submission("di")], tmp_path, resume=True, judge=two)
    found = grade([submission("di"), *CLASS], tmp_path, resume=True, judge=two)
    assert batch.merge(tmp_path) == (found, [])


def test_a_record_without_all_exercises_is_not_done(graded, tmp_path):
    out = copied(graded, tmp_path / "out")
    record.write(replace(graded[1][0], results=()), out / batch.RECORDS)
    assert batch.merge(out)[1] == ["ada"]


def test_files_of_a_run_have_one_mode_but_for_the_secret(tmp_path):
    before = os.umask(0o022)
    try:
        outputs.write_all(grade(CLASS[2:], tmp_path, judge=judge()), COURSE, tmp_path)
    finally:
        os.umask(before)
    modes = {
        path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*") if path.is_file()
    }
    assert modes.pop(secret.FILE) == 0o600
    assert {"grading.json", "bo.json", "marks.csv", "gradebook.db", "no_mark.txt"} <= set(modes)
    assert set(modes.values()) == {0o644}


def test_a_stub_is_no_answer_and_what_does_not_count_is_one():
    handed_out = {
        answer.exercise: answer
        for module in COURSE.modules
        for answer in answers.read(COURSE.root / module.exercise_notebook)
    }
    empty = Submission("bo", answers=handed_out)
    assert batch.exercises_of([empty], COURSE) == ((), ())
    found, _ = batch.exercises_of([empty, submission("ada")], COURSE)
    assert found == ("hello_ranks", "read_queue")
    near = Submission("cy", uncounted={"ddp": "its magic is misspelt"})
    assert "ddp" in batch.exercises_of([near], COURSE)[0]


def test_two_runs_at_once_do_not_meet(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    with open(out / ".part-1-of-1", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(UserError, match="another run is grading into it"):
            grade(CLASS, out)


def test_a_folder_that_is_none_and_a_merge_of_nothing(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written to"):
        grade(CLASS, tmp_path / "file")
    with pytest.raises(UserError, match="no grading is here"):
        batch.merge(tmp_path)
    (tmp_path / batch.MANIFEST).write_text("[]")
    with pytest.raises(UserError, match="not the plan of a grading"):
        grade(CLASS, tmp_path, resume=True)


def test_a_full_disk_costs_nothing_that_was_graded(tmp_path, monkeypatch):
    def full(path, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(record, "write_whole", full)
    with pytest.raises(UserError, match=r"No space left on device.*--resume"):
        grade([Submission("bo", refused="not JSON")], tmp_path / "out")


def test_a_grader_that_breaks_over_one_submission_grades_the_others(tmp_path):
    found = grade([submission("ada"), CLASS[2]], tmp_path, judge=judge(examine=int))
    assert [each.results[0].status for each in found] == ["not gradable", "refused"]
    assert "TypeError" in found[0].results[0].headline


def test_a_process_that_dies_is_tried_twice_and_takes_nobody_with_it(monkeypatch):
    fork = multiprocessing.get_context("fork")
    monkeypatch.setattr(workers.multiprocessing, "get_context", lambda _: fork)

    def work(connection, judge, environment):
        while True:
            each = connection.recv()
            if each.person == "eve":
                os._exit(9)
            connection.send(judge.record(each))

    monkeypatch.setattr(workers, "_work", work)
    class_ = [Submission(p, refused="nothing") for p in ("ada", "eve", "bo", "cy")]
    found = {each.person: what for each, what in workers.judged(class_, judge(), 2)}
    assert set(found) == {"ada", "eve", "bo", "cy"}
    assert isinstance(found["eve"], workers.WorkerDied)
    assert "exit code 9" in str(found["eve"])
    assert found["cy"].refused == "nothing"


def test_a_process_that_is_never_done_is_ended(monkeypatch):
    fork = multiprocessing.get_context("fork")
    monkeypatch.setattr(workers.multiprocessing, "get_context", lambda _: fork)
    monkeypatch.setattr(workers, "_work", lambda *_: time.sleep(1000))
    monkeypatch.setattr(workers, "DEADLINE", 0.5)
    monkeypatch.setattr(workers, "LOOK_EVERY", 0.1)
    before = {child.pid for child in psutil.Process().children()}
    ((_, what),) = workers.judged([Submission("ada", refused="nothing")], judge(), 1)
    assert "not done after" in str(what)
    assert {child.pid for child in psutil.Process().children()} <= before


def test_workers_are_renewed(monkeypatch):
    fork = multiprocessing.get_context("fork")
    monkeypatch.setattr(workers.multiprocessing, "get_context", lambda _: fork)
    monkeypatch.setattr(workers, "RENEW_AFTER", 2)

    def work(connection, judge, environment):
        while True:
            each = connection.recv()
            connection.send(replace(judge.record(each), digest=str(os.getpid())))

    monkeypatch.setattr(workers, "_work", work)
    class_ = [Submission(str(n), refused="nothing") for n in range(6)]
    by = [what.digest for _, what in workers.judged(class_, judge(), 1)]
    assert len(set(by)) == 3


@pytest.mark.parametrize(
    ("only", "exercises", "submitting"),
    [
        ((), ("hello_ranks", "read_queue"), ("job_script",)),
        (("ddp",), ("ddp",), ()),
        (
            ("06", "hello_ranks"),
            ("hello_ranks", *(e.id for e in COURSE.module("06").exercises)),
            (),
        ),
    ],
)
def test_which_exercises_are_graded(only, exercises, submitting):
    assert batch.exercises_of([submission("ada")], COURSE, only) == (exercises, submitting)


def test_of_these_the_core_exercises_alone():
    core = tuple(exercise.id for exercise in COURSE.module("06").core)
    found = batch.exercises_of([submission("ada")], COURSE, core=True)
    assert found == (("hello_ranks",), ())
    assert batch.exercises_of([], COURSE, ["06", "amdahl"], core=True) == (core, ())
    with pytest.raises(UserError, match="none of amdahl is on the core path: leave out --core"):
        batch.exercises_of([], COURSE, ["amdahl"], core=True)


def test_a_record_says_that_core_exercises_alone_count(tmp_path):
    assert [each.core for each in grade([submission("ada")], tmp_path, judge=judge(core=True))] == [
        True
    ]
    assert [each.core for each in batch.merge(tmp_path)[0]] == [True]
    with pytest.raises(UserError, match="was begun with --core: use another --out"):
        grade([submission("ada")], tmp_path, resume=True)


def test_an_unknown_exercise_and_no_exercise_at_all(tmp_path):
    with pytest.raises(UserError, match="no exercise 'dpp'"):
        batch.exercises_of([], COURSE, ["dpp"])
    with pytest.raises(UserError, match="none of the submissions answers"):
        grade([], tmp_path, judge=judge(exercises=()))
