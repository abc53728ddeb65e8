"""Wrong answers are edits of the solution: what their file may say, and what becomes of it."""

from pathlib import Path

import pytest

from hpml.course import schedule
from hpml.course.instructors import wrong_answers
from hpml.errors import UserError

from .conftest import DAY

COURSE = DAY + 'exercises = [{ id = "ring", minutes = 10 }]\n'

SOLUTION = """\
# %%
# %%answer ring
def ring(values: list[int]) -> int:
    ### BEGIN SOLUTION
    total = sum(values)
    return total
    ### END SOLUTION
"""

TABLE = """
[doubled]
wrong = '''
counts all values
twice'''
hint = "sum"
old = 'sum(values)'
new = '2 * sum(values)'
"""


@pytest.fixture
def course(tmp_path: Path) -> schedule.Course:
    (tmp_path / "course.toml").write_text(COURSE)
    (tmp_path / "solutions").mkdir()
    (tmp_path / "solutions/03_rings.py").write_text(SOLUTION)
    (tmp_path / "tests/modules/m03_rings/checks").mkdir(parents=True)
    return schedule.load(tmp_path / "course.toml")


def read(course: schedule.Course, text: str) -> tuple[wrong_answers.WrongAnswer, ...]:
    (course.root / "tests/modules/m03_rings/checks/wrong_ring.toml").write_text(text)
    return wrong_answers.read(course, "ring")


def with_diff(*lines: str) -> str:
    """TABLE with a diff of these lines."""
    diff = "\n".join(["diff = '''", *lines, "'''"])
    return TABLE.replace("old = 'sum(values)'\nnew = '2 * sum(values)'", diff)


def made(course: schedule.Course, text: str) -> str:
    (wrong,) = read(course, text)
    return wrong.answer(wrong_answers.solution(course, "ring"))


def test_the_edited_solution_is_what_a_learner_could_have_written(course: schedule.Course) -> None:
    assert made(course, TABLE) == (
        "%%answer ring\ndef ring(values: list[int]) -> int:\n"
        "    total = 2 * sum(values)\n    return total\n"
    )


def test_a_table_names_hint_and_fault_and_the_rest_has_defaults(course: schedule.Course) -> None:
    (wrong,) = read(course, TABLE)
    assert (wrong.name, wrong.wrong) == ("doubled", "counts all values twice")
    assert (wrong.hint, wrong.claim, wrong.needs, wrong.world) == ("sum", "", "", 2)


def test_several_edits_are_made_at_once(course: schedule.Course) -> None:
    """An old text is looked for in the solution, not in what the edit before has made."""
    lines = (
        *("-    return total", "+    return sum"),
        *("@@ and", "-    total = sum(values)", "+    sum = total"),
    )
    assert made(course, with_diff(*lines)).endswith("    sum = total\n    return sum\n")


def test_lines_around_a_change_find_its_place_and_stay(course: schedule.Course) -> None:
    text = with_diff("     total = sum(values)", "", "+    total *= 2", "     return total")
    solution = (course.root / "solutions/03_rings.py").read_text()
    assert "    total = sum(values)\n    return" in solution
    with pytest.raises(UserError, match="is not in the solution"):
        made(course, text)  # there is no empty line between them
    made_of = made(course, with_diff(" def ring(values: list[int]) -> int:", "+    print(values)"))
    assert "-> int:\n    print(values)\n    total = sum" in made_of


def test_a_whole_source_stands_for_itself(course: schedule.Course) -> None:
    text = TABLE.replace("old = 'sum(values)'\nnew = '2 * sum(values)'", "source = 'ring = len'")
    assert made(course, text) == "%%answer ring\nring = len"


def test_no_file_means_no_wrong_answers(course: schedule.Course) -> None:
    assert wrong_answers.read(course, "ring") == ()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("'sum(values)'", "'product'", "doubled: 'product' is not in the solution"),
        ("'sum(values)'", "'total'", "doubled: 'total' is more than once in the solution"),
        ("new = '2", "diff = '-x'\nnew = '2", "expected old and new, or a diff, or a source"),
        ("old = 'sum(values)'", "old = ''", "an edit has an old text and a new one"),
        ("new = '2 * sum(values)'", "new = 'sum(values)'", "an edit has an old text and a new one"),
        ("new = '2 * sum(values)'", "", "an edit has an old text and a new one"),
        ("new =", "source = 'x'\nnew =", "expected old and new, or a diff, or a source"),
        ("new =", "neu =", "unknown key 'neu'"),
        ('hint = "sum"', "", "hint is None, expected a text"),
        ('hint = "sum"', 'hint = ""', "hint is empty"),
        ('hint = "sum"', 'hint = "sum"\nworld = 5', "world is 5, expected a number from 1 to 4"),
        ("[doubled]", "[doubled", "wrong_ring.toml: not valid TOML"),
        ("[doubled]", "name = 3\n[doubled]", "name: expected a table"),
    ],
)
def test_a_mistake_is_named_in_one_line(
    course: schedule.Course, old: str, new: str, says: str
) -> None:
    assert old in TABLE
    with pytest.raises(UserError) as raised:
        made(course, TABLE.replace(old, new))
    assert says in str(raised.value)
    assert "doubled" in str(raised.value) or "wrong_ring.toml" in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


def test_edits_that_overlap_are_refused(course: schedule.Course) -> None:
    lines = ("-    total = sum(values)", "@@", "-    total = sum(values)", "-    return total")
    with pytest.raises(UserError, match="overlaps with another old text"):
        made(course, with_diff(*lines))


def test_a_line_of_a_diff_says_what_becomes_of_it(course: schedule.Course) -> None:
    with pytest.raises(UserError, match="doubled: a line of a diff begins with 'r': use"):
        made(course, with_diff("return total"))
    with pytest.raises(UserError, match="an old text and a new one that differ"):
        made(course, with_diff("     return total"))
    with pytest.raises(UserError, match="an old text and a new one that differ"):
        made(course, with_diff("+    return total"))
