"""What an instructor is told of a class at a moment, from the checks until then."""

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from hpml.course import schedule
from hpml.course.class_record import Line
from hpml.course.instructors import class_now, cluster_steps, core_path, run_sheet
from hpml.course.instructors.class_folder import Learner, Recorded
from hpml.course.instructors.class_now import Planned
from hpml.course.instructors.run_sheet import Mistake
from hpml.course.schedule import Course, Exercise, Module

NOW = datetime(2026, 11, 29, 14, 0, tzinfo=timezone.utc)
RING, TREE, MESH = (
    Exercise("ring", 20, True, Path()),
    Exercise("tree", 10, False, Path()),
    Exercise("mesh", 15, True, Path()),
)
COURSE = Course(
    "", "", (Module("03", "rings", "R", "13:30", 45, "?", (RING, TREE, MESH), ()),), Path()
)
PLAN = (Planned(RING, 13 * 60 + 35, 13 * 60 + 55), Planned(MESH, 14 * 60, 14 * 60 + 15))


def line(ago: int, claim: str = "", exercise: str = "ring", **more: object) -> Line:
    """A check `ago` minutes before NOW: failed at `claim`, else as `more` says."""
    values = {"status": "failed", "cause": "claims", "holds": 1, "claims": 3}
    values |= {"earned": 2, "points": 6, "hint": claim and f"key of {claim}"}
    at = NOW - timedelta(minutes=ago)
    return Line(at=at, exercise=exercise, claim=claim, **{**values, **more})


def passed(ago: int, exercise: str = "ring") -> Line:
    return line(ago, exercise=exercise, status="passed", holds=3)


def raised(ago: int) -> Line:
    return line(ago, cause="raised", hint="raised", holds=0)


def look(**lines: list[Line]) -> class_now.Now:
    learners = tuple(Learner(label, tuple(its)) for label, its in lines.items())

    def saying(exercise: str, hint: str) -> Mistake | None:
        return Mistake(f"wrote {hint}", f"say of {exercise}") if hint else None

    return class_now.look(COURSE, PLAN, Recorded(learners, 4, 2), saying, NOW)


def on(*lines: Line) -> tuple[str, int, int] | None:
    """What a learner with these checks is on, for how many minutes, after how many checks."""
    found = class_now.standing(Learner("ada", lines), NOW)
    return found and (found.what, found.minutes, found.checks)


def test_a_learner_is_on_a_claim_since_it_first_failed():
    assert on(line(50, "sum"), line(30, "order"), line(12, "order")) == ("order", 30, 2)


def test_an_exception_in_between_does_not_begin_it_anew_and_another_claim_does():
    assert on(line(30, "order"), raised(20), line(12, "order")) == ("order", 30, 2)
    assert on(line(30, "order"), raised(20)) == ("order", 30, 1)
    assert on(line(30, "order"), line(20, "sum"), line(12, "order")) == ("order", 12, 1)


def test_another_exercise_in_between_begins_it_anew():
    for other in (line(20, "order", "tree"), passed(20, "tree")):
        assert on(line(30, "order"), other, line(12, "order")) == ("order", 12, 1)


def test_where_no_claim_was_judged_it_is_the_cause_in_words():
    assert on(raised(30), raised(12)) == ("raises an exception", 30, 2)
    assert on(line(5, cause="a new one")) == ("a new one", 5, 1)


def test_after_a_pass_or_where_all_that_can_be_judged_here_holds_a_learner_is_on_nothing():
    assert on(line(30, "order"), passed(20)) is None
    assert on(passed(20), line(12, "order")) is None  # a pass stays a pass
    assert on(line(30, "order"), line(20, status="not gradable")) is None
    assert on(line(20, status="not gradable", cause="ours")) == (
        class_now.CAUSES["ours"],
        20,
        1,
    )


def test_the_hints_are_the_most_that_were_read_of_it_though_reading_begins_again():
    lines = (line(30, "order", hints=4), line(20, "order", hints=1))
    assert class_now.standing(Learner("ada", lines), NOW).hints == 4


def test_every_cause_of_a_verdict_has_words():
    from typing import get_args

    from hpml.checks.verdict import Cause

    assert set(class_now.CAUSES) == set(get_args(Cause)) - {"claims"}


def test_ten_minutes_on_a_claim_are_long_and_the_longest_stand_first():
    found = look(
        a=[line(9, "sum")],
        b=[line(10, "sum")],
        c=[line(25, "sum"), line(2, "sum")],
        d=[line(60, "sum"), line(31, "sum")],  # who knows what d does now
    )
    assert [(each.learner, each.minutes) for each in found.long] == [("c", 25), ("b", 10)]
    assert (len(found.learners), found.active) == (4, 3)


def test_what_most_people_are_on_stands_first_with_what_to_say():
    found = look(
        a=[line(5, "sum")],
        b=[line(5, "order")],
        c=[line(5, "order", hint="other")],
        d=[line(5, "order")],
        e=[line(5, cause="unwritten", hint="start")],
        f=[passed(1)],
        g=[line(50, "sum")],
        h=[line(5, cause="unwritten", hint="start")],
        i=[line(3, "again")],
        j=[line(2, "again")],
    )
    assert [(m.exercise, m.what, m.learners) for m in found.missed] == [
        ("ring", "order", ("b", "c", "d")),
        ("ring", "again", ("i", "j")),
    ]
    assert found.missed[0].mistake == Mistake("wrote key of order", "say of ring")
    (alone,) = look(a=[line(5, "sum")], b=[line(5, "order")]).missed
    assert alone.learners == ("b",)


def test_a_row_for_each_exercise_that_somebody_checked_in_the_order_of_the_day():
    found = look(
        a=[line(40, "sum", "mesh"), passed(30), line(3, "sum", holds=2)],
        b=[line(50, "sum", "mesh"), line(15, "sum", holds=2)],
        c=[line(5, "sum")],
    )
    cells = {
        row.exercise.id: [(cell.state, cell.holds, cell.claims) for cell in row.cells]
        for row in found.rows
    }
    assert list(cells) == ["ring", "mesh"]
    assert cells["ring"] == [("done", 2, 3), ("long", 2, 3), ("on it", 1, 3)]
    assert cells["mesh"] == [("tried", 1, 3), ("tried", 1, 3), ("", 0, 0)]
    assert found.rows[0].done == 1


def test_two_of_one_name_are_two():
    learners = (Learner("sam", (line(15, "sum"),)), Learner("sam", (passed(1),)))
    found = class_now.look(COURSE, PLAN, Recorded(learners, 0, 0), lambda *_: None, NOW)
    assert [cell.state for cell in found.rows[0].cells] == ["long", "done"]
    assert [each.mistake for each in found.missed] == [None]


def test_the_core_stands_beside_the_clock():
    found = look(a=[passed(30), line(5, "sum", "mesh")], b=[passed(9)], c=[line(5, "sum")])
    assert [(c.exercise, c.at, c.phase, c.done, c.on_it) for c in found.core] == [
        ("ring", "13:35", "over", 2, 1),
        ("mesh", "14:00", "now", 0, 1),
    ]
    assert (found.over, found.middle) == (1, 1)
    early = class_now.look(
        COURSE, PLAN, Recorded((), 0, 0), lambda *_: None, NOW - timedelta(hours=1)
    )
    assert [each.phase for each in early.core] == ["later", "later"]
    assert (early.over, early.middle, early.learners) == (0, None, ())


def test_the_plan_is_the_run_sheets_and_what_has_no_hour_comes_before_the_day():
    course = schedule.load()
    planned = class_now.plan(course)
    assert [each.exercise for each in planned] == list(course.core)
    assert (planned[0].begins, planned[0].ends) == (None, None)
    times = [each.begins for each in planned[1:]]
    assert times == sorted(times)
    for module in course.modules[1:]:
        hours, minutes = map(int, module.slot.split(":"))
        begins = [each.begins for each in planned if each.exercise in module.core]
        assert all(0 <= at - 60 * hours - minutes < module.minutes for at in begins)
    # As on the sheet: behind the part on the cluster
    part = cluster_steps.read(course, course.module("06"))
    assert part is not None
    alone = [e.at for e in run_sheet.clock(core_path.of(course, course.module("06"))) if e.exercise]
    begun = {each.exercise.id: each.begins for each in planned}["ddp_train"]
    hours, minutes = map(int, alone[-1].split(":"))
    assert begun == 60 * hours + minutes + part.minutes


@pytest.mark.parametrize("exercise", [exercise.id for exercise in schedule.load().core])
def test_each_wrong_answer_of_the_core_has_its_words(exercise):
    from hpml.course.instructors import wrong_answers

    course = schedule.load()
    saying = class_now.sayings(course)
    for wrong in wrong_answers.read(course, exercise):
        found = saying(exercise, wrong.hint)
        assert found.wrong
        assert found.say
    assert saying(exercise, "raised").say
    assert saying(exercise, "no such hint") is None
