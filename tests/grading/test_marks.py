"""Marks as tables: whole, in the course's order, and harmless to a spreadsheet and a terminal."""

import csv
import io
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, example, given, settings
from rich.console import Console

from hpml.course.schedule import Course
from hpml.grading import marks
from hpml.grading.record import Record

from .conftest import HOSTILE, hostile_text

any_text = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)


def rows(class_: list[Record], course: Course) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(marks.as_csv(class_, course)), strict=True))


def printed(class_: list[Record], course: Course, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, color_system="standard", force_terminal=True)
    for table in marks.tables(class_, course):
        console.print(table)
    return console.file.getvalue()


def test_a_row_has_the_person_each_mark_and_the_sum(
    record: Callable[..., Record], course: Course
) -> None:
    (row,) = rows([record(status={"ddp": "failed", "shard_sampler": "missing"})], course)
    assert row == {
        "person": "ada",
        "name": "Ada Lovelace",
        "email": "ada@example.org",
        "process_group": "10",
        "shard_sampler": "0",
        "ddp": "18",
        "global_metrics": "5",
        "total": "33",
        "points": "45",
        "note": "missing: shard_sampler",
    }


def test_columns_are_in_the_order_of_the_course(
    record: Callable[..., Record], course: Course
) -> None:
    whole = record()
    backwards = record("b", results=tuple(reversed(whole.results)))
    header = marks.as_csv([backwards, whole], course).splitlines()[0]
    assert header.split(",")[3:7] == ["process_group", "shard_sampler", "ddp", "global_metrics"]


def test_what_could_not_be_graded_is_neither_0_nor_a_sum(
    record: Callable[..., Record], course: Course
) -> None:
    (row,) = rows([record(status={"ddp": "not gradable"})], course)
    assert (row["ddp"], row["total"]) == ("not gradable", "not gradable")
    assert row["process_group"] == "10"
    assert row["note"] == "not gradable: ddp"


def test_a_cell_is_empty_where_an_exercise_was_not_graded(
    record: Callable[..., Record], course: Course
) -> None:
    one = record("b", results=record().results[:1])
    nothing = record("c", results=(), refused="c.ipynb: not a notebook")
    _, second, third = rows([record(), one, nothing], course)
    assert (second["process_group"], second["ddp"], second["total"]) == ("10", "", "10")
    assert (third["ddp"], third["total"], third["note"]) == (
        "",
        "",
        "refused: c.ipynb: not a notebook",
    )


def test_marks_of_an_unsafe_run_say_so(record: Callable[..., Record], course: Course) -> None:
    (row,) = rows([record(unsafe=True)], course)
    assert row["note"] == "UNSAFE: graded outside a sandbox"


def test_marks_of_core_exercises_only_say_so(record: Callable[..., Record], course: Course) -> None:
    (row,) = rows([record(status={"ddp": "missing"}, core=True)], course)
    assert row["note"] == "core exercises only; missing: ddp"
    assert marks.summary([record(core=True)]) == (
        "1 person; the median is 45 of 45 points (core exercises only)."
    )
    assert "core" not in marks.summary([record()])


@any_text
@given(text=hostile_text)
@example(text="\t=1+1")
@example(text="\r=1+1")
@example(text="@SUM(A1)")
@example(text="-2+3")
@example(text="+1")
def test_no_text_of_a_person_is_a_formula_or_breaks_the_table(
    full_of: Callable[[str], Record], course: Course, text: str
) -> None:
    table = marks.as_csv([full_of(text)], course)
    table.encode()
    (row,) = rows([full_of(text)], course)
    assert None not in row
    for cell in row.values():
        assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))
        assert cell.isprintable()


def test_a_harmless_name_is_left_as_it_is() -> None:
    for name in ("Jörg Müller", "李小龙", "O'Neil", "x = 1"):
        assert marks.defused(name) == name


def test_the_terminal_lists_first_what_could_not_be_graded(
    record: Callable[..., Record], course: Course
) -> None:
    class_ = [
        record("ada", {"ddp": "failed"}),
        record("bob", {"ddp": "not gradable"}),
        record("eve", {"ddp": "refused"}, refused="eve.ipynb: a pipe"),
    ]
    text = printed(class_, course)
    assert text.index("No mark: ") < text.index("People") < text.index("Most missed")
    assert text.index("what became of ddp") < text.index("People")
    assert text.index("a pipe") < text.index("People")
    assert "ddp holds that" in text[text.index("Most missed") :]


@pytest.mark.parametrize("status", ["not gradable", "refused", "not counted"])
def test_medians_and_means_count_the_same_people(
    record: Callable[..., Record], course: Course, status: str
) -> None:
    class_ = [record("a"), record("b", {"ddp": "failed"}), record("c", {"ddp": "missing"})]
    more = [*class_, record("d", {"ddp": status, "shard_sampler": "missing"})]
    _, sampler, ddp, _ = marks.counts(more, course)
    assert ddp.number == {"passed": 1, "failed": 1, "missing": 1, status: 1}
    assert ddp.mean == (20 + 18 + 0) / 3
    assert (sampler.people, sampler.mean) == (4, 10), "d has no total"
    assert marks.summary(class_) == "3 people; the median is 43 of 45 points."
    assert marks.summary(more) == (
        "4 people; the median is 43 of 45 points. 1 has no total yet, and is in no mean or median."
    )


@pytest.mark.parametrize("status", ["refused", "not counted"])
def test_what_was_refused_or_does_not_count_is_neither_0_nor_a_sum(
    record: Callable[..., Record], course: Course, status: str
) -> None:
    class_ = [record(status={"ddp": status}), record("b", {"ddp": "not gradable"})]
    row, _ = rows(class_, course)
    assert (row["ddp"], row["total"], row["note"]) == (status, status, f"{status}: ddp")
    assert marks.refused(class_) == [(class_[0], "what became of ddp", ["ddp"])]
    text = printed(class_, course)
    assert text.index("what became of ddp") < text.index("People")


def test_a_person_can_neither_redraw_nor_mark_up_the_terminal(
    full_of: Callable[[str], Record], course: Course
) -> None:
    for text in HOSTILE:
        shown = printed([full_of(text)], course, width=400)
        assert "\x1b[2J" not in shown
        assert "\0" not in shown
        assert "\u202e" not in shown
    assert "[bold red]" in printed([full_of("[bold red]x")], course, width=400)


def test_what_could_not_be_graded_is_gathered_by_its_cause(record: Callable[..., Record]) -> None:
    class_ = [record(who, {"ddp": "not gradable"}) for who in ("a", "b")]
    class_.append(record("c", {"shard_sampler": "not gradable"}))
    assert [(exercise, len(people)) for exercise, _, people in marks.ungraded(class_)] == [
        ("ddp", 2),
        ("shard_sampler", 1),
    ]
    assert marks.ungraded(class_)[0][1] == "what became of ddp: it came as 3 pieces"
