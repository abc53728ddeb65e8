"""How hostile answers are written down: what a file or a table may say, and the text it makes."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from hpml.bench.instructors import attacks, hostile
from hpml.checks import find
from hpml.course import schedule
from hpml.course.instructors import wrong_answers
from hpml.errors import UserError

HEAD = """\
# %%answer hello_ranks
# tries: nothing, in words
# that go on
# unprotected: nobody sees it
"""
TABLE = """
[07_half]
tries = "adds up half of it"
unprotected = "nobody sees it"
old = 'dist.all_reduce(total)'
new = 'total *= 2'
"""


def read(folder: Path, **files: str) -> dict[str, hostile.Attack]:
    for name, text in files.items():
        file = name.replace("__", "/").replace("_toml", ".toml").replace("_py", ".py")
        path = folder / "attacks" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return {attack.name: attack for attack in hostile.read_all(folder)}


def solution() -> str:
    return wrong_answers.solution(schedule.load(), "hello_ranks")


def test_a_file_is_the_whole_answer_and_the_rest_has_defaults(tmp_path):
    attack = read(tmp_path, a07_odd_py=HEAD + "def hello(number):\n    pass\n")["a07_odd"]
    assert attack.source == "%%answer hello_ranks\ndef hello(number):\n    pass\n"
    assert (attack.tries, attack.unprotected) == ("nothing, in words that go on", "nobody sees it")
    assert (attack.exercise, attack.expect, attack.is_right) == ("hello_ranks", 0, False)


def test_row_and_points_are_those_of_the_head_or_else_of_the_name_and_none(tmp_path):
    odd, right = (tmp_path / f"attacks/{name}.py" for name in ("07_odd", "08_right"))
    odd.parent.mkdir()
    odd.write_text(HEAD)
    right.write_text(f"{HEAD}# row: 8, 9\n# expect: full\n")
    attacks = read(tmp_path)
    assert [attacks[name].row for name in ("07_odd", "08_right")] == ["7", "8, 9"]
    assert attacks["08_right"].expect == find("hello_ranks").points


def test_a_text_follows_what_it_is_built_on(tmp_path):
    made = read(
        tmp_path,
        tricks__channel_py="def channel(): ...\n",
        first_py=HEAD + "# on: channel, solution\nfirst = hello\n",
        second_py=HEAD + "# on: first\nhello = first\n",
    )
    base = solution().partition("\n")[2]
    assert made["first"].source == (
        f"%%answer hello_ranks\ndef channel(): ...\n\n\n{base}\n\nfirst = hello\n"
    )
    assert made["second"].source == made["first"].source + "\n\nhello = first\n"


def test_a_table_is_an_edit_of_the_solution_or_of_what_it_is_built_on(tmp_path):
    again = TABLE.replace("07_half", "07_third").replace("old =", 'on = "07_half"\nold =')
    again = again.replace("dist.all_reduce(total)", "*= 2").replace("total *= 2", "*= 3")
    made = read(tmp_path, hello_ranks_toml=TABLE + again)
    half = solution().replace("dist.all_reduce(total)", "total *= 2")
    assert made["07_half"].source == half
    assert made["07_third"].source == half.replace("*= 2", "*= 3")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("dist.all_reduce(total)", "nothing", "'nothing' is not in solution"),
        ("dist.all_reduce(total)", "total", "'total' is more than once in solution"),
        ("old = 'dist.all_reduce(total)'\nnew = 'total *= 2'\n", "", "expected old and new"),
        ("new = 'total *= 2'", "", "an edit has an old text"),
        ("tries", "trys", "unknown key 'trys'"),
        ('tries = "adds up half of it"', "", "'tries'"),
        ("old =", "expect = 'some'\nold =", "'some'"),
        ("old =", "on = 'thin_air'\nold =", "on: thin_air is neither"),
        ("[07_half]", "[07_half", "not valid TOML"),
        ("[07_half]", "name = 3\n[07_half]", "name: expected a table"),
    ],
)
def test_a_mistake_is_named_with_file_and_table(tmp_path, old, new, says):
    assert old in TABLE
    with pytest.raises(UserError) as raised:
        read(tmp_path, hello_ranks_toml=TABLE.replace(old, new))
    assert says in str(raised.value)
    assert str(raised.value).startswith("hello_ranks.toml: ")


@pytest.mark.parametrize(
    "text",
    ["def hello(number): pass\n", "# %%answer hello_ranks\n# row: 1\n", "# %%answer nobody\n"],
)
def test_an_attack_without_its_head_is_refused(tmp_path, text):
    with pytest.raises(UserError, match="odd"):
        read(tmp_path, odd_py=text)


def test_an_attack_of_a_module_has_the_tricks_of_all(tmp_path):
    own = tmp_path / "modules/m00_your_machine/attacks/07_odd.py"
    own.parent.mkdir(parents=True)
    own.write_text(f"{HEAD}# on: channel\nmine = 1\n")
    made = read(tmp_path, tricks__channel_py="def channel(): ...\n")
    assert made["07_odd"].source.endswith("def channel(): ...\n\n\nmine = 1\n")


def test_a_folder_without_attacks_is_refused(tmp_path):
    with pytest.raises(UserError, match="no attack"):
        hostile.read_all(tmp_path)


@pytest.mark.parametrize("place", ["headline", "answer"])
def test_a_record_that_says_too_much_does_harm_and_a_long_answer_none(place):
    text = "x" * (attacks.LARGEST + 1)
    results = [{"exercise": "hello_ranks", "headline": "", "answer": "", place: text}]
    record = SimpleNamespace(as_json=lambda: {"results": results})
    assert bool(attacks._too_long(record)) == (place == "headline")
