"""`./hpml course check` is good for a good course, and red for each way to break one."""

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import cloudpickle
import pytest

from hpml.answer.rules import ReadyMade
from hpml.checks import judge
from hpml.checks.contract import CannotJudge, Check, Claim, Problem, Run
from hpml.checks.verdict import Verdict
from hpml.course import schedule
from hpml.course.instructors.prove import Row, prove, record
from hpml.errors import UserError
from hpml.ranks import flavour

from .conftest import DAY

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # ranks cannot import tests

COURSE = DAY + 'exercises = [{ id = "total", minutes = 10 }]\n'

SOLUTION = """\
# %% [markdown]
# ## `total`: all ranks together
#
# **To write:** the sum. **Not allowed:** magic. **Allowed:** any call of
# `torch.distributed`.

# %%
# %%answer total
import torch
import torch.distributed as dist


def total(number: int) -> int:
    tensor = torch.tensor(number)
    dist.all_reduce(tensor)
    return tensor.item()
"""

STUB = """\
# %%
# %%answer total
import torch
import torch.distributed as dist


def total(number: int) -> int:
    # YOUR CODE HERE
    raise NotImplementedError()
"""

SUM = "    return int(dist.all_reduce(tensor := torch.tensor(number)) or tensor)\n"
WRONG = """
[a_constant]
wrong = "made up"
hint = "alone"
claim = "the sum is right"
old = 'return tensor.item()'
new = 'return -1'

[a_word]
wrong = "of another type"
hint = "type"
old = 'return tensor.item()'
new = 'return str(number)'

[leaves]
wrong = "gives up"
hint = "raised"
diff = '''
-    tensor = torch.tensor(number)
+    raise ValueError("no")
@@
-    dist.all_reduce(tensor)
'''

[own_number]
wrong = "nobody is asked"
hint = "alone"
source = '''
def total(number):
    return number
'''
"""
NAMES = ("a_constant", "a_word", "leaves", "own_number")


def right_type(run: Run) -> Problem | None:
    wrong = [value for value in run.values if type(value) is not int]
    return Problem(f"{wrong[0]!r} is not an int", "type") if wrong else None


def right_sum(run: Run) -> Problem | None:
    wrong = [value for value in run.values if value != run.expected]
    return Problem(f"{wrong[0]} is not the sum", "alone") if wrong else None


def drive(answer: ModuleType, number: int) -> int:
    return answer.total(number)


GOOD = Check(
    id="total",
    title="The sum over all ranks",
    names=("total",),
    to_write="the sum",
    allowed="any call of `torch.distributed`",
    not_allowed=(ReadyMade("magic"),),
    inputs=lambda seed, world: [seed % 97 + 2 + rank for rank in range(world)],
    expect=lambda inputs, world: sum(inputs),
    drive=drive,
    claims=(
        Claim("an int comes back", 1, right_type),
        Claim("the sum is right", 2, right_sum),
    ),
    hints={"start": "Call all_reduce.", "type": "An int.", "alone": "Talk.", "raised": "Look."},
)


judged: dict[str, Verdict] = {}


def judge_once(check: Check, source: str) -> Verdict:
    """Most damage leaves most answers as they were: those of the good check are judged once."""
    if check is not GOOD:
        return judge(check, source)
    if source not in judged:
        judged[source] = judge(check, source)
    return judged[source]


class Course:
    """A course on disk that a test can break, and its rows."""

    def __init__(self, root: Path) -> None:
        self.root, self.check, self.ids = root, GOOD, ("total",)
        self.wrong = root / "tests/modules/m03_rings/checks/wrong_total.toml"
        (root / "course.toml").write_text(COURSE)
        self.claims = root / "src/hpml/modules/m03_rings/checks/total.py"
        self.claims.parent.mkdir(parents=True)
        self.claims.write_text("Claim('type', 1, f)\nClaim('sum', 2, f)\n")
        for folder, text in (("solutions", SOLUTION), ("exercises", STUB)):
            (root / folder).mkdir()
            (root / folder / "03_rings.py").write_text(text)
        self.wrong.parent.mkdir(parents=True)
        self.wrong.write_text(WRONG)
        self.wrong.with_name("test_total.py").touch()
        self.claims.with_name("_steps.py").write_text('STEPS = {"total": {"second": "?"}}\n')
        honest = self.wrong.parents[1] / "honest/total_plain.py"
        honest.parent.mkdir()
        honest.write_text("# %%answer total\n")

    def edit(self, path: str, old: str, new: str) -> None:
        text = (self.root / path).read_text()
        assert old in text
        (self.root / path).write_text(text.replace(old, new))

    def rows(self, *exercises: str) -> list[Row]:
        def find(exercise: str) -> Check:
            if exercise != "total":
                raise UserError(f"no exercise has the id {exercise!r}")
            return self.check

        course = schedule.load(self.root / "course.toml")
        return prove(course, exercises, find=find, judge=judge_once, ids=self.ids)


@pytest.fixture
def course(tmp_path: Path) -> Course:
    return Course(tmp_path)


def test_a_good_course_is_good_in_every_row(course: Course) -> None:
    rows = course.rows()
    assert [(row.part, row.name) for row in rows] == [
        ("check", "The sum over all ranks"),
        ("stub", "03_rings.ipynb"),
        ("solution", "03_rings.ipynb"),
        *(("wrong answer", name) for name in NAMES),
    ]
    assert [row.reason for row in rows] == [""] * len(rows)
    assert rows[2].shows == "3 of 3 points at world sizes 1, 2, 3, 4"
    assert record(rows)["good"] is True


def test_a_row_of_a_wrong_answer_has_what_its_learner_reads(course: Course) -> None:
    rows = course.rows()
    assert [row.first_failure for row in rows[:3]] == [None] * 3
    word, leaves = rows[4], rows[5]
    assert word.wrong == "of another type"
    assert word.first_failure is not None
    assert word.first_failure.claim == "an int comes back"
    assert re.fullmatch(r"with 1 rank: '\d+' is not an int", word.first_failure.message)
    assert (word.first_failure.line, word.first_failure.hint) == ("", "An int.")
    # No claim was judged of an answer that did not return.
    assert leaves.first_failure is not None
    assert leaves.first_failure.claim == ""
    assert "line 7 of your answer" in leaves.first_failure.message
    assert leaves.first_failure.line == 'line 7 |     raise ValueError("no")'
    assert leaves.first_failure.hint == "Look."
    assert record(rows)["rows"][5]["first_failure"]["hint"] == "Look."


def solution(old: str, new: str) -> Callable[[Course], None]:
    return lambda course: course.edit("solutions/03_rings.py", old, new)


def stub(old: str, new: str) -> Callable[[Course], None]:
    return lambda course: course.edit("exercises/03_rings.py", old, new)


def wrong(old: str, new: str) -> Callable[[Course], None]:
    return lambda course: course.edit("tests/modules/m03_rings/checks/wrong_total.toml", old, new)


def check(**fields: object) -> Callable[[Course], None]:
    def change(course: Course) -> None:
        course.check = replace(GOOD, **fields)

    return change


def unlisted(course: Course) -> None:
    course.ids = ("total", "forgotten")


def homeless(course: Course) -> None:
    (course.root / "tests/modules/m03_rings/checks/wrong_tally.toml").write_text("")


def broken_judge(run: Run) -> Problem | None:
    raise ZeroDivisionError


def no_hints(**without: str) -> dict[str, str]:
    return {key: text for key, text in GOOD.hints.items() if key not in without}


@pytest.mark.parametrize(
    ("damage", "part", "says"),
    [
        (solution("dist.all_reduce(tensor)", "pass"), "solution",
         "failed at world size 2: the sum"),
        (solution("tensor.item()", "str(tensor.item())"), "solution", "'.*' is not an int"),
        (solution("dist.all_reduce(tensor)", "1 / 0"), "solution", "ZeroDivisionError"),
        (solution("%%answer total", "%%answer other"), "solution", "has no %%answer total"),
        (stub("raise NotImplementedError()", "return number"), "stub", "it earns 1 points"),
        (stub("    raise NotImplementedError()\n", SUM), "stub", "it is passed"),
        (stub("raise NotImplementedError()", "raise ValueError()"), "stub", "hint raised"),
        (stub("# %%answer total", "# nothing"), "stub", "has no %%answer total"),
        (wrong("'return -1'", "'return tensor.item() + 0'"), "wrong answer", "it is passed"),
        (wrong('hint = "type"', 'hint = "alone"'), "wrong answer",
         "its hint is 'type', meant was 'alone'"),
        (wrong('hint = "type"', 'hint = "other"'), "wrong answer",
         "names the hint 'other', the check has start, type"),
        (wrong('claim = "the sum', 'claim = "sum'), "wrong answer",
         "first claim to fail is 'the sum is right', meant was 'sum is right'"),
        (wrong("-    tensor = torch", "-    tensors = torch"), "wrong answer",
         r"leaves: 'tensors = torch.*' is not in the solution"),
        (wrong("old = 'return tensor.item()'", "old = 'tensor'"), "wrong answer",
         "a_word: 'tensor' is more than once in the solution"),
        (wrong('hint = "type"', ""), "wrong answer", "wrong_total.toml: a_word: hint is None"),
        (wrong("[a_word]", "[other]\n[a_word]"), "wrong answer", "other: wrong is None"),
        (lambda course: course.wrong.write_text(WRONG[: WRONG.index("[leaves]")]), "check",
         "tests/modules/m03_rings/checks/wrong_total.toml: 2 wrong answers, expected at least 4"),
        (lambda course: course.wrong.unlink(), "check", "wrong_total.toml: 0 wrong answers"),
        (check(claims=GOOD.claims[:1]), "check", "worth 1 points, its file reads as 3"),
        (check(claims=GOOD.claims + GOOD.claims[:1]), "check", "two of its claims have one name"),
        (check(claims=()), "check", "no claims"),
        (check(claims=(*GOOD.claims[:1], replace(GOOD.claims[1], points=0))), "check", "no points"),
        (check(hints=no_hints(start="")), "check", 'no hint "start"'),
        (check(hints={"start": "Call all_reduce.", "type": "An int."}), "check", "hints: 2"),
        (check(title="total"), "check", "its title is its id"),
        (check(allowed=""), "check", "not say what is to be written and what may be used"),
        (check(not_allowed=()), "check", r"03_rings.py: below the title ## `total`, write: .*ted`"),
        (solution("magic", "a spell"), "check", r"write: \*\*To write:\*\* the sum\. .* magic\."),
        (lambda course: course.wrong.with_name("test_total.py").unlink(), "check",
         "tests/modules/m03_rings/checks/test_total.py is missing"),
        (lambda course: course.claims.with_name("_steps.py").unlink(), "check",
         "m03_rings/checks/_steps.py does not say how to go on"),
        (lambda course: (course.wrong.parents[1] / "honest/total_plain.py").unlink(), "check",
         "tests/modules/m03_rings/honest has no right answer in a style that few write"),
        (solution("dist.all_reduce(tensor)", "raise NotImplementedError()"), "solution",
         "still a stub"),
        (check(hints=GOOD.hints | {"alone": " "}), "check", "a hint is empty"),
        (check(hints=no_hints(alone="")), "wrong answer", "names the hint 'alone'"),
        (check(worlds=(1, 2)), "check", r"world sizes \(1, 2\), expected"),
        (check(id="sum"), "check", "its id is 'sum', course.toml has 'total'"),
        (check(claims=(GOOD.claims[0], Claim("the sum is right", 2, broken_judge))), "solution",
         "not gradable.*ZeroDivisionError"),
        (lambda course: course.edit("course.toml", '"total"', '"tally"'), "check",
         "no check: no exercise has the id 'tally'"),
        (unlisted, "check", "course.toml does not list it"),
        (homeless, "wrong answer", "course.toml has no such exercise"),
    ],
)  # fmt: skip
def test_each_way_to_break_it_makes_its_row_red(
    course: Course, damage: Callable[[Course], None], part: str, says: str
) -> None:
    damage(course)
    rows = course.rows()
    red = [row for row in rows if not row.good]
    assert any(row.part == part and re.search(says, row.reason) for row in red), red
    assert record(rows)["good"] is False


def test_one_exercise_can_be_proved_alone(course: Course) -> None:
    assert {row.exercise for row in course.rows("total")} == {"total"}
    with pytest.raises(UserError, match="no exercise 'tally'"):
        course.rows("tally")


def test_an_exercise_without_ranks_is_played_once(course: Course) -> None:
    course.check = replace(GOOD, worlds=(1,), process_group=False)
    (row,) = [row for row in course.rows() if row.part == "check"]
    assert row.good


def test_what_a_machine_cannot_judge_is_told_and_the_rest_is_proved(course: Course) -> None:
    """Of a wrong answer only where it says what it needs."""
    sums = Claim("the sum is right", 2, lambda run: CannotJudge("no sums here"))
    course.check = replace(GOOD, claims=(GOOD.claims[0], sums))
    wrong("[own_number]", "[own_number]\nneeds = 'sums'")(course)
    wrong("'return -1'", "'return tensor.item() + 0'")(course)
    rows = {row.name: row for row in course.rows()}
    assert rows["03_rings.ipynb"].good
    assert rows["03_rings.ipynb"].shows.endswith("no sums here")
    assert rows["own_number"].good
    assert rows["own_number"].shows == "not gradable without sums; no sums here"
    assert not rows["a_constant"].good
    course.edit("solutions/03_rings.py", "tensor.item()", "str(tensor)")
    assert not next(row for row in course.rows() if row.part == "solution").good


def test_what_takes_a_horovod_that_is_not_there_is_told_and_not_proved(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    course.check = replace(GOOD, flavour="horovod")
    monkeypatch.setattr(flavour, "missing", lambda _: "Horovod is not installed")
    check, *rows = course.rows()
    assert check.part == "check"
    assert [row.part for row in rows] == ["stub", "solution", *["wrong answer"] * len(NAMES)]
    assert all(row.good for row in rows)
    assert {row.shows for row in rows} == {"not gradable: Horovod is not installed"}


def test_rows_are_told_in_order(course: Course) -> None:
    told: list[Row] = []
    rows = prove(
        schedule.load(course.root / "course.toml"),
        find=lambda exercise: course.check,
        judge=judge_once,
        on_row=told.append,
    )
    assert told == rows


def test_in_brief_a_wrong_answer_is_played_where_it_shows(course: Course) -> None:
    """At two ranks, or as many as its table names; at all world sizes where that shows nothing."""
    not_three = """
[{name}]
wrong = "not for three"
hint = "alone"
{world}
old = 'return tensor.item()'
new = 'return 0 if dist.get_world_size() == 3 else tensor.item()'
"""
    tables = [not_three.format(name="known", world="world = 3")]
    tables += [not_three.format(name="unknown", world="")]
    course.wrong.write_text(WRONG + "".join(tables))
    played: list[object] = []

    def watching(check: Check, source: str, worlds: object = None) -> Verdict:
        played.append(worlds)
        return judge(check, source, worlds=worlds)

    rows = prove(
        schedule.load(course.root / "course.toml"),
        find=lambda exercise: course.check,
        judge=watching,
        workers=1,
        brief=True,
    )
    assert [row.reason for row in rows] == [""] * len(rows)
    stub, solution, *wrong_ones = played
    assert (stub, solution) == (None, None)
    assert wrong_ones == [*[(2,)] * len(NAMES), (3,), (2,), None]


def test_with_seeds_a_wrong_answer_must_fail_with_each_of_them(course: Course) -> None:
    def lucky(check: Check, source: str, worlds: object = None, seed: int = 0) -> Verdict:
        return judge(check, SOLUTION.partition("# %%\n# ")[2] if seed == 3 else source, worlds=(2,))

    def rows(seeds: range) -> list[Row]:
        return prove(
            schedule.load(course.root / "course.toml"),
            find=lambda exercise: course.check,
            judge=lucky,
            brief=True,
            parts=("wrong answer",),
            wrong=NAMES[0],
            seeds=seeds,
        )

    (good,), (bad,) = rows(range(1, 3)), rows(range(1, 4))
    assert (good.reason, good.shows) == ("", "failed, hint alone, with 2 seeds")
    assert bad.reason == "with seed 3: it is passed: the check does not see what is wrong"
