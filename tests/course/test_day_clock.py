"""The clock of the day: breaks and lunch are between the slots."""

from dataclasses import replace

from hpml.course import schedule
from hpml.course.instructors import day_clock
from hpml.course.instructors.day_clock import Pause

MODULE = schedule.load().modules[0]


def modules(*slots: tuple[str, int]) -> list[schedule.Module]:
    return [
        replace(MODULE, id=f"{number:02}", slot=slot, minutes=minutes)
        for number, (slot, minutes) in enumerate(slots)
    ]


def test_what_is_between_two_slots_is_a_pause():
    day = modules(
        ("before the day", 30), ("09:00", 45), ("09:45", 45), ("10:45", 90), ("13:00", 60)
    )
    rows = list(day_clock.rows(day))
    assert [row for row in rows if isinstance(row, Pause)] == [
        Pause("02", "10:30", 15),
        Pause("03", "12:15", 45),
    ]
    assert [row for row in rows if not isinstance(row, Pause)] == day
    assert rows.index(Pause("02", "10:30", 15)) == 3


def test_lunch_is_a_long_break_at_noon():
    assert Pause("01", "12:15", 45).name == "Lunch"
    assert Pause("01", "12:15", 15).name == "Break"
    assert Pause("01", "15:00", 45).name == "Break"


def test_the_clock_goes_on_from_the_slot_or_from_zero():
    home, nine = modules(("before the day", 30), ("09:00", 45))
    assert (day_clock.at(home, 62), day_clock.at(nine, 62.4)) == ("1:02", "10:02")
    assert (day_clock.begins(home), day_clock.begins(nine)) == (None, 540)
