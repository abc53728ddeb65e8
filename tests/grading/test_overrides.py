"""Marks by hand, what is taken off, and comments: in every export, and never in a record."""

from collections.abc import Callable
from pathlib import Path

import pytest

from hpml.errors import UserError
from hpml.grading import feedback, gradebook, gradescope, junit, marks, overrides
from hpml.grading.record import Record


def write(out: Path, *rows: str, head: str = "person,exercise,earned,why") -> None:
    (out / overrides.FILE).write_text("\n".join([head, *rows, ""]), encoding="utf-8-sig")


def results(record: Record) -> dict[str, tuple[int, str, str]]:
    return {each.exercise: (each.earned, each.status, each.remark) for each in record.results}


def test_without_the_file_nothing_changes(record: Callable[..., Record], tmp_path: Path) -> None:
    assert overrides.applied([record()], tmp_path) == [record()]


def test_a_mark_by_hand_and_what_is_off(record: Callable[..., Record], tmp_path: Path) -> None:
    class_ = [record("ada", {"ddp": "not gradable"}), record("bo")]
    (of_ada,) = [r for r in class_[0].results if r.exercise == "ddp"]
    write(
        tmp_path,
        "ada,,-10%,two days late",
        f'ada,ddp,{of_ada.points},"right, for all that"',
        "ada,ddp,,read it again",
    )
    ada, bo = overrides.applied(class_, tmp_path)
    assert bo == class_[1]
    assert ada.has_total, "an exercise without a mark has one now"
    earned, status, remark = results(ada)["ddp"]
    assert (earned, status) == ((of_ada.points * 90 + 50) // 100, "passed")
    by_hand = f"{of_ada.points} of {of_ada.points} by hand: right, for all that"
    assert remark == f"{by_hand}; read it again; 10 % off: two days late"
    for before, after in zip(class_[0].results, ada.results, strict=True):
        if before.exercise != "ddp":
            assert after.earned == (before.earned * 90 + 50) // 100
    assert "two days late" in ada.notes


def test_every_export_has_the_mark_and_the_reason(
    record: Callable[..., Record], course, tmp_path: Path
) -> None:
    write(tmp_path, "ada;ddp;3;only by half", head="person;exercise;earned;why")
    (ada,) = overrides.applied([record("ada")], tmp_path)
    assert "only by half" in feedback.person_page(ada, course)
    (test,) = [t for t in gradescope.results(ada)["tests"] if "ddp" in t["tags"]]
    assert (test["score"], "only by half" in test["output"]) == (3.0, True)
    (row,) = marks.as_csv([ada], course).splitlines()[-1:]
    assert ",3," in f"{row},"
    (result,) = [each for each in ada.results if each.exercise == "ddp"]
    assert "only by half" in gradebook._comment(ada, result)
    remark = f"ddp: 3 of {result.points} by hand: only by half"
    assert f'value="{remark}"' in junit.as_xml([ada]).decode()


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("eve,ddp,3,why", r"line 2: no record of 'eve' is here"),
        ("ada,ring,3,why", r"line 2: 'ring' was not graded"),
        ("ada,ddp,999,why", r"line 2: earned is '999': give 0 to \d+, or -10%"),
        ("ada,ddp,3.5,why", r"earned is '3.5'"),
        ("ada,ddp,-110%,why", r"earned is '-110%'"),
        ("ada,,3,why", r"earned is '3' for no exercise"),
        ("ada,ddp,3,", r"line 2: no reason"),
    ],
)
def test_what_cannot_be_meant_is_named_with_its_line(
    record: Callable[..., Record], tmp_path: Path, row: str, said: str
) -> None:
    write(tmp_path, row)
    with pytest.raises(UserError, match=said):
        overrides.applied([record("ada")], tmp_path)


def test_a_file_with_other_columns_is_refused(
    record: Callable[..., Record], tmp_path: Path
) -> None:
    write(tmp_path, "ada,3", head="person,mark")
    with pytest.raises(UserError, match="no column exercise, earned, why: the first line is"):
        overrides.applied([record("ada")], tmp_path)
