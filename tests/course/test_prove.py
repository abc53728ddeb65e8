"""`./hpml course check` is good for a good course, and red for each way to break one."""

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import cloudpickle
import pytest

from hpml.checks import judge
from hpml.checks.contract import CannotJudge, Check, Claim, Problem, Run
from hpml.checks.verdict import Verdict
from hpml.course import day
from hpml.course.prove import Row, header, prove, record
from hpml.errors import UserError
from hpml.ranks import flavour

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # ranks cannot import tests

COURSE = """
title = "A day"
subtitle = "short"
[[module]]
id = "03"
name = "rings"
title = "Rings"
slot = "09:00"
asks = "Why?"
notebook = "notebooks/03_rings.ipynb"
solution = "solutions/03_rings.ipynb"
exercise_notebook = "exercises/03_rings.ipynb"
exercises = [{ id = "total", points = 3 }]
jobs = []
"""

SOLUTION = """\
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
WRONG = {
    "own_number": "# Nobody is asked.\n# hint: alone\ndef total(number):\n    return number\n",
    "a_word": "# hint: type\ndef total(number):\n    return str(number)\n",
    "leaves": "# hint: raised\ndef total(number):\n    raise ValueError('no')\n",
    "a_constant": "# hint: alone\n# claim: the sum is right\ndef total(number):\n    return -1\n",
}

SOLVED = "# hint: alone\n" + SOLUTION.split("\n", 2)[2]


def right_type(run: Run) -> Problem | None:
    wrong = [value for value in run.values if type(value) is not int]
    return Problem(f"{wrong[0]!r} is no int", "type") if wrong else None


def right_sum(run: Run) -> Problem | None:
    wrong = [value for value in run.values if value != run.expected]
    return Problem(f"{wrong[0]} is not the sum", "alone") if wrong else None


def drive(answer: ModuleType, number: int) -> int:
    return answer.total(number)


GOOD = Check(
    id="total",
    title="The sum over all ranks",
    names=("total",),
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
        self.mutants = root / "tests" / "mutants"
        (root / "course.toml").write_text(COURSE)
        for folder, text in (("solutions", SOLUTION), ("exercises", STUB)):
            (root / folder).mkdir()
            (root / folder / "03_rings.py").write_text(text)
        for name, text in WRONG.items():
            self.wrong(name).parent.mkdir(parents=True, exist_ok=True)
            self.wrong(name).write_text(text)

    def wrong(self, name: str) -> Path:
        return self.mutants / "03" / "total" / f"{name}.py"

    def edit(self, path: str, old: str, new: str) -> None:
        text = (self.root / path).read_text()
        assert old in text
        (self.root / path).write_text(text.replace(old, new))

    def rows(self, *exercises: str) -> list[Row]:
        def find(exercise: str) -> Check:
            if exercise != "total":
                raise UserError(f"no exercise has the id {exercise!r}")
            return self.check

        course = day.load(self.root / "course.toml")
        return prove(course, exercises, find=find, judge=judge, mutants=self.mutants, ids=self.ids)


@pytest.fixture
def course(tmp_path: Path) -> Course:
    return Course(tmp_path)


def test_a_good_course_is_good_in_every_row(course: Course) -> None:
    rows = course.rows()
    assert [(row.part, row.name) for row in rows] == [
        ("check", "The sum over all ranks"),
        ("stub", "03_rings.ipynb"),
        ("solution", "03_rings.ipynb"),
        *(("wrong answer", name) for name in sorted(WRONG)),
    ]
    assert [row.reason for row in rows] == [""] * len(rows)
    assert rows[2].shows == "3 of 3 points at world sizes 1, 2, 3, 4"
    assert record(rows)["good"] is True


def solution(old: str, new: str) -> Callable[[Course], None]:
    return lambda course: course.edit("solutions/03_rings.py", old, new)


def stub(old: str, new: str) -> Callable[[Course], None]:
    return lambda course: course.edit("exercises/03_rings.py", old, new)


def wrong(name: str, text: str) -> Callable[[Course], None]:
    return lambda course: course.wrong(name).write_text(text)


def check(**fields: object) -> Callable[[Course], None]:
    def change(course: Course) -> None:
        course.check = replace(GOOD, **fields)

    return change


def unlisted(course: Course) -> None:
    course.ids = ("total", "forgotten")


def homeless(course: Course) -> None:
    (course.mutants / "04" / "total").mkdir(parents=True)
    (course.mutants / "04" / "total" / "a.py").write_text("# hint: start\n")


def broken_judge(run: Run) -> Problem | None:
    raise ZeroDivisionError


def no_hints(**without: str) -> dict[str, str]:
    return {key: text for key, text in GOOD.hints.items() if key not in without}


RIGHT = SOLUTION.partition("%%answer total\n")[2]


@pytest.mark.parametrize(
    ("damage", "part", "says"),
    [
        (solution("dist.all_reduce(tensor)", "pass"), "solution",
         "failed at world size 2: the sum"),
        (solution("tensor.item()", "str(tensor.item())"), "solution", "'.*' is no int"),
        (solution("dist.all_reduce(tensor)", "1 / 0"), "solution", "ZeroDivisionError"),
        (solution("%%answer total", "%%answer other"), "solution", "has no %%answer total"),
        (stub("raise NotImplementedError()", "return number"), "stub", "it earns 1 points"),
        (stub("    raise NotImplementedError()\n", SUM), "stub", "it is passed"),
        (stub("raise NotImplementedError()", "raise ValueError()"), "stub", "hint raised"),
        (stub("# %%answer total", "# nothing"), "stub", "has no %%answer total"),
        (wrong("own_number", "# hint: alone\n" + RIGHT), "wrong answer", "it is passed"),
        (wrong("own_number", WRONG["own_number"].replace("alone", "type")), "wrong answer",
         "its hint is 'alone', meant was 'type'"),
        (wrong("own_number", WRONG["own_number"].replace("alone", "other")), "wrong answer",
         "names the hint 'other', the check has start, type"),
        (wrong("own_number", "def total(number):\n    return number\n"), "wrong answer",
         "has no line `# hint: KEY`"),
        (wrong("a_constant", WRONG["a_word"] + "# claim: the sum is right"), "wrong answer", ""),
        (wrong("a_word", "# claim: the sum is right\n" + WRONG["a_word"]), "wrong answer",
         "first claim to fail is 'an int comes back'"),
        (lambda course: course.wrong("leaves").unlink(), "check",
         "tests/mutants/03/total has 3 wrong answers, expected at least 4"),
        (check(claims=GOOD.claims[:1]), "check", "worth 1 points, course.toml has 3"),
        (check(claims=GOOD.claims + GOOD.claims[:1]), "check", "two of its claims have one name"),
        (check(claims=()), "check", "no claims"),
        (check(claims=(*GOOD.claims[:1], replace(GOOD.claims[1], points=0))), "check", "no points"),
        (check(hints=no_hints(start="")), "check", 'no hint "start"'),
        (check(hints=GOOD.hints | {"alone": " "}), "check", "a hint is empty"),
        (check(hints=no_hints(alone="")), "wrong answer", "names the hint 'alone'"),
        (check(worlds=(1, 2)), "check", r"world sizes \(1, 2\), expected"),
        (check(id="sum"), "check", "its id is 'sum', course.toml has 'total'"),
        (check(claims=(GOOD.claims[0], Claim("the sum is right", 2, broken_judge))), "solution",
         "not gradable.*ZeroDivisionError"),
        (lambda course: course.edit("course.toml", '"total"', '"tally"'), "check",
         "no check: no exercise has the id 'tally'"),
        (unlisted, "check", "course.toml does not list it"),
        (homeless, "wrong answer", "module 04 has no such id"),
    ],
)  # fmt: skip
def test_each_way_to_break_it_makes_its_row_red(
    course: Course, damage: Callable[[Course], None], part: str, says: str
) -> None:
    damage(course)
    rows = course.rows()
    red = [row for row in rows if not row.good]
    if not says:  # a comment after the header is no header
        assert red == []
        return
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
    for name in ("own_number", "a_constant"):
        path = course.wrong(name)
        path.write_text(f"# needs: sums\n{path.read_text()}" if name == "own_number" else SOLVED)
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
    assert [row.part for row in rows] == ["stub", "solution", *["wrong answer"] * len(WRONG)]
    assert all(row.good for row in rows)
    assert {row.shows for row in rows} == {"not gradable: Horovod is not installed"}


def test_rows_are_told_in_order(course: Course) -> None:
    told: list[Row] = []
    rows = prove(
        day.load(course.root / "course.toml"),
        find=lambda exercise: course.check,
        judge=judge_once,
        mutants=course.mutants,
        on_row=told.append,
    )
    assert told == rows


def test_in_brief_a_wrong_answer_is_played_at_all_world_sizes_where_the_small_ones_do_not_show_it(
    course: Course,
) -> None:
    three = "    if dist.get_world_size() == 3:\n        return 0\n"
    text = f"# hint: alone\n{RIGHT}".replace("    tensor = ", f"{three}    tensor = ")
    course.wrong("not_three").write_text(text)
    played: list[tuple[str, object]] = []

    def watching(check: Check, source: str, worlds: object = None) -> Verdict:
        played.append((source, worlds))
        return judge(check, source, worlds=worlds)

    rows = prove(
        day.load(course.root / "course.toml"),
        find=lambda exercise: course.check,
        judge=watching,
        mutants=course.mutants,
        workers=1,
        brief=True,
    )
    assert [row.reason for row in rows] == [""] * len(rows)
    assert [worlds for source, worlds in played if three in source] == [(1, 2), None]
    others = [worlds for source, worlds in played if "# hint" in source and three not in source]
    assert others == [(1, 2)] * len(WRONG)
    assert [worlds for source, worlds in played if "# hint" not in source] == [None, None]


def test_the_header_ends_with_the_first_line_of_code() -> None:
    text = "# What people do: this.\n# hint: alone\n#claim: it: works\nx = 1\n# hint: other\n"
    assert header(text) == {"hint": "alone", "claim": "it: works"}
