"""What is read of a class's folder, and what harms nobody there."""

import json
import os
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from hpml.course.class_record import ENDING
from hpml.course.instructors import class_folder
from hpml.course.schedule import Course, Exercise, Module
from hpml.errors import UserError

NOW = datetime(2026, 11, 29, 14, 0, tzinfo=timezone.utc)
GOOD = {
    "at": "2026-11-29T13:58:00Z",
    "exercise": "ring",
    "status": "failed",
    "cause": "claims",
    "holds": 1,
    "claims": 3,
    "earned": 2,
    "points": 6,
    "claim": "gradients are averaged",
    "hint": "weights",
}
EXERCISES = (Exercise("ring", 20, True, Path()), Exercise("tree", 10, False, Path()))
COURSE = Course("", "", (Module("03", "rings", "Rings", "09:00", 45, "?", EXERCISES, ()),), Path())


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    folder = tmp_path / "shared"
    folder.mkdir()
    return folder


def put(folder: Path, *rows: object, learner: str = "aaaa0001", kernel: str = "00000001") -> Path:
    """A learner's file: dicts as lines, texts and bytes as they are."""
    path = folder / f"{learner}-{kernel}{ENDING}"
    for row in rows:
        text = json.dumps(row) if isinstance(row, dict) else row
        with open(path, "ab") as file:
            file.write(b"\n" + (text if isinstance(text, bytes) else text.encode()) + b"\n")
    return path


def read(folder: Path) -> class_folder.Recorded:
    return class_folder.read(folder, COURSE, NOW)


def test_files_of_one_learner_are_put_together_in_the_order_of_time(shared):
    put(shared, GOOD | {"at": "2026-11-29T13:50:00Z", "name": "Ada"}, kernel="00000002")
    put(shared, GOOD, GOOD | {"at": "2026-11-29T13:40:00Z"})
    put(shared, GOOD | {"exercise": "tree"}, learner="bbbb0001")
    found = read(shared)
    assert [(each.label, len(each.lines)) for each in found.learners] == [("aaaa", 3), ("bbbb", 1)]
    assert [line.at.minute for line in found.learners[0].lines] == [40, 50, 58]
    assert (found.ignored, found.unread) == (0, 0)


def test_a_learner_is_called_by_the_last_name_given_else_by_what_tells_two_apart(shared):
    put(shared, GOOD)
    put(shared, GOOD, learner="aaaa0002")
    put(shared, GOOD | {"name": "Ada"}, GOOD | {"name": "seat 12"}, learner="cccc0001")
    assert [each.label for each in read(shared).learners] == ["aaaa0001", "aaaa0002", "seat 12"]


HOSTILE_LINES = {
    "text": "hello",
    "binary": bytes(range(256)).replace(b"\n", b""),
    "not UTF-8": b'{"at": "2026-11-29T13:58:00Z", "exercise": "\xff"}',
    "a list": "[]",
    "deep": "[" * 2000,
    "deep and unknown": '{"more":' + "[" * 2000 + "]" * 2000 + "}",
    "half a line": json.dumps(GOOD)[:50],
    "two in one": json.dumps(GOOD) * 2,
    "long": json.dumps(GOOD | {"more": "x" * 5000}),
    "long claim": json.dumps(GOOD | {"claim": "x" * 201}),
    "long name": json.dumps(GOOD | {"name": "x" * 41}),
    "no time": json.dumps({key: value for key, value in GOOD.items() if key != "at"}),
    "no zone": json.dumps(GOOD | {"at": "2026-11-29T13:58:00"}),
    "a number as time": json.dumps(GOOD | {"at": 1e300}),
    "the future": json.dumps(GOOD | {"at": "2026-11-29T14:11:00Z"}),
    "the year 9999": json.dumps(GOOD | {"at": "9999-12-31T23:59:59Z"}),
    "before the course": json.dumps(GOOD | {"at": "1999-01-01T00:00:00Z"}),
    "unknown exercise": json.dumps(GOOD | {"exercise": "../../etc/passwd"}),
    "unknown status": json.dumps(GOOD | {"status": "best of all"}),
    "more than all": json.dumps(GOOD | {"holds": 4}),
    "more points than there are": json.dumps(GOOD | {"earned": 7}),
    "negative": json.dumps(GOOD | {"holds": -1}),
    "huge": json.dumps(GOOD | {"claims": 10**9}),
    "huge beyond words": json.dumps(GOOD).replace('"claims": 3', '"claims": ' + "9" * 400),
    "a float": json.dumps(GOOD | {"holds": 1.5}),
    "NaN": json.dumps(GOOD | {"holds": float("nan")}),
    "a text for a number": json.dumps(GOOD | {"holds": "1"}),
    "a list for a text": json.dumps(GOOD | {"claim": ["x"]}),
    "null": json.dumps(GOOD | {"claim": None}),
    "true": json.dumps(GOOD | {"holds": True}),
}


@pytest.mark.parametrize("kind", HOSTILE_LINES)
def test_a_line_that_no_check_wrote_is_ignored_and_counted_and_its_neighbours_are_read(
    kind, shared
):
    put(shared, GOOD, HOSTILE_LINES[kind], GOOD)
    found = read(shared)
    assert (len(found.learners[0].lines), found.ignored) == (2, 1)


def test_of_what_else_a_line_has_nothing_is_kept_and_words_are_safe_to_show(shared):
    put(shared, GOOD | {"claim": "\x1b[2J<b>\u202e\nx", "name": " \x07Ada\n", "code": "import os"})
    ((learner,), ignored) = read(shared).learners, read(shared).ignored
    assert ignored == 0
    assert learner.lines[0].claim.isprintable()
    assert learner.label == "\N{REPLACEMENT CHARACTER}Ada"
    assert "import os" not in repr(learner)


def test_a_clock_that_is_a_little_ahead_counts_as_now(shared):
    put(shared, GOOD | {"at": "2026-11-29T14:09:00Z"})
    assert read(shared).learners[0].lines[0].at == NOW


def test_what_is_no_file_of_a_learners_is_not_read(shared, tmp_path):
    secret = put(tmp_path, GOOD)
    put(shared, GOOD)
    name = f"bbbb0001-0000000{{}}{ENDING}"
    (shared / name.format(1)).symlink_to(secret)
    (shared / name.format(2)).symlink_to("/dev/zero")
    os.mkfifo(shared / name.format(3))
    (shared / name.format(4)).mkdir()
    (shared / f"aaaa0001{ENDING}").write_text(json.dumps(GOOD))
    (shared / f"aaaa0001-0000000x{ENDING}").write_text(json.dumps(GOOD))
    (shared / "notes.txt").write_text("of the class, and none of ours")
    found = read(shared)
    assert [len(each.lines) for each in found.learners] == [1]
    assert (found.ignored, found.unread) == (0, 6)


def test_of_a_huge_file_the_end_is_read_and_no_more(shared, monkeypatch):
    path = put(shared, GOOD)
    os.truncate(path, 10**12)  # has no blocks
    put(shared, GOOD | {"holds": 2})
    found = read(shared)
    assert [line.holds for line in found.learners[0].lines] == [2]
    assert found.ignored >= 1


def test_of_many_checks_the_last_are_read(shared):
    begin = datetime(2026, 11, 29, 8, tzinfo=timezone.utc)
    times = [(begin + timedelta(seconds=10 * n)).isoformat() for n in range(2000)]
    put(shared, *(GOOD | {"at": at} for at in times))
    found = read(shared)
    assert found.ignored == 1
    assert 1000 < len(found.learners[0].lines) < 2000
    assert found.learners[0].lines[-1].at.isoformat() == times[-1]


def test_of_too_many_files_some_are_read_and_the_others_counted(shared, monkeypatch):
    monkeypatch.setattr(class_folder, "MOST_FILES", 3)
    for number in range(5):
        put(shared, GOOD, learner=f"aaa{number}0001")
    found = read(shared)
    assert (len(found.learners), found.unread) == (3, 2)


def test_one_who_fills_the_folder_does_not_hide_the_others(shared, monkeypatch):
    for number in range(5):
        put(shared, GOOD, learner=f"aaa{number}0001")
    put(shared, GOOD | {"name": "Zoe"}, learner="ffff0001")
    monkeypatch.setattr(class_folder, "_owner", lambda entry: entry.name.startswith("f"))
    monkeypatch.setattr(class_folder, "MOST_FILES", 2)
    assert [each.label for each in read(shared).learners] == ["Zoe", "aaa0"]


def test_of_all_files_together_so_many_bytes_are_read_and_no_more(shared, monkeypatch):
    for number in range(5):
        put(shared, GOOD, learner=f"aaa{number}0001")
    monkeypatch.setattr(class_folder, "MOST_BYTES", 300)  # of files of 230
    found = read(shared)
    assert (len(found.learners), found.unread) == (2, 3)


def test_another_users_file_with_a_learners_id_is_not_that_learners(shared, monkeypatch):
    put(shared, GOOD)
    put(shared, GOOD | {"status": "passed"}, kernel="00000002")
    real = class_folder._end_of

    def owned(path: Path):
        owner, data, whole = real(path)
        return owner + ("00000002" in path.name), data, whole

    monkeypatch.setattr(class_folder, "_end_of", owned)
    assert [len(each.lines) for each in read(shared).learners] == [1, 1]


def test_a_folder_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(UserError, match=r"none: No such file or directory: name the folder"):
        read(tmp_path / "none")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"Not a directory"):
        read(tmp_path / "file")


def test_an_empty_folder_is_an_empty_class(shared):
    assert read(shared) == class_folder.Recorded((), 0, 0)
