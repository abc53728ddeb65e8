"""Everything is written from records, and what cannot be written costs nothing else."""

from collections.abc import Callable
from pathlib import Path

import pytest

from hpml.course.schedule import Course
from hpml.errors import UserError
from hpml.grading import gradebook, outputs
from hpml.grading import record as records
from hpml.grading.record import Record

from .conftest import EXPECTED


def files(out: Path) -> set[str]:
    return {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}


def test_everything_is_written_but_what_was_expected(
    record: Callable[..., Record], course: Course, tmp_path: Path
) -> None:
    out = tmp_path / "graded"
    class_ = [
        record("ada", {"ddp": "failed"}),
        record("bob", {"ddp": "not gradable", "shard_sampler": "failed"}),
        record("index"),
    ]
    written = outputs.write_all(class_, course, out)
    expected = {
        "marks.csv",
        "index.html",
        "junit.xml",
        "gradebook.db",
        "feedback/ada.html",
        "feedback/bob.html",
        "feedback/index.html",
        "gradescope/ada/results.json",
        "gradescope/bob/no_mark.txt",
        "gradescope/index/results.json",
    }
    assert files(out) == expected
    assert {str(path.relative_to(out)) for path in written} == expected
    (out / "records").mkdir()
    for each in class_:
        records.write(each, out / "records")
    texts = {name: (out / name).read_bytes() for name in files(out)}
    assert any(b"it came as 3 pieces" in text for text in texts.values())
    assert [name for name, text in texts.items() if EXPECTED.encode() in text] == []


def test_what_cannot_be_written_is_named_and_costs_nothing_else(
    record: Callable[..., Record], course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("the database\nis locked")

    monkeypatch.setattr(gradebook, "write", broken)
    (tmp_path / "junit.xml").mkdir()
    with pytest.raises(UserError) as error:
        outputs.write_all([record()], course, tmp_path)
    assert "gradebook.db (the database is locked)" in str(error.value)
    assert "junit.xml (" in str(error.value)
    assert "\n" not in str(error.value)
    assert files(tmp_path) == {
        "marks.csv",
        "index.html",
        "feedback/ada.html",
        "gradescope/ada/results.json",
    }


def test_an_empty_class_is_written(course: Course, tmp_path: Path) -> None:
    outputs.write_all([], course, tmp_path)
    assert (tmp_path / "marks.csv").read_text() == "person,name,email,total,points,note\n"
    assert "0 people." in (tmp_path / "index.html").read_text()
