"""The machine's facts as a notebook shows them."""

from hpml.doctor import Fact
from hpml.modules.m00_your_machine.lecture.facts import facts_as_markdown

FACTS = [
    Fact("Python", "3.11.2 in /home/ada/course/.venv", True),
    Fact("MPI", "none", False, "mpirun examples cannot be run", "apt install openmpi-bin"),
    Fact("odd", "a|b", True),
]


def rows() -> list[list[str]]:
    lines = facts_as_markdown(FACTS).splitlines()[2:]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]


def test_there_is_a_row_for_each_fact():
    assert [row[0] for row in rows()] == ["Python", "MPI", "odd"]


def test_of_a_path_only_the_last_part_is_shown():
    assert rows()[0][1] == "3.11.2 in …/.venv"


def test_what_is_lacking_says_what_that_costs_and_the_rest_does_not():
    assert rows()[1][2] == "mpirun examples cannot be run"
    assert len(rows()[0]) == 2


def test_a_bar_in_a_value_does_not_end_its_cell():
    assert rows()[2][1] == r"a\|b"
