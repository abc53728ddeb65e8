"""Wrong answers are edits of the solution: what their file may say, and what becomes of it."""

from pathlib import Path

import pytest

from hpml.course import schedule, wrong_answers
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
    (tmp_path / "tests/checks/m03_rings").mkdir(parents=True)
    return schedule.load(tmp_path / "course.toml")


def read(course: schedule.Course, text: str) -> tuple[wrong_answers.WrongAnswer, ...]:
    (course.root / "tests/checks/m03_rings/wrong_ring.toml").write_text(text)
    return wrong_answers.read(course, "ring")


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
    text = TABLE.replace("old = 'sum(values)'\nnew = '2 * sum(values)'", "") + "".join(
        f"[[doubled.edits]]\nold = '{old}'\nnew = '{new}'\n"
        for old, new in (("return total", "return sum"), ("total = sum(values)", "sum = total"))
    )
    assert made(course, text).endswith("    sum = total\n    return sum\n")


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
        ("new = '2", "[[doubled.edits]]\nnew = '2", "expected old and new, or edits, or a source"),
        ("old = 'sum(values)'", "old = ''", "an edit has two texts, old and new"),
        ("new = '2 * sum(values)'", "new = 'sum(values)'", "an edit has two texts, old and new"),
        ("new = '2 * sum(values)'", "", "an edit has two texts, old and new"),
        ("new =", "source = 'x'\nnew =", "expected old and new, or edits, or a source"),
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
    text = TABLE.replace("old = 'sum(values)'\nnew = '2 * sum(values)'", "") + "".join(
        f"[[doubled.edits]]\nold = '{old}'\nnew = 'x'\n" for old in ("total = sum", "sum(values)")
    )
    with pytest.raises(UserError, match=r"'sum\(values\)' overlaps with another old text"):
        made(course, text)
