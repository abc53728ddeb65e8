"""A class that does not exist: of every kind, always the same, with marks known beforehand."""

import json
from collections import Counter

import pytest

from hpml.bench import made_up
from hpml.course import schedule
from hpml.grading import intake
from hpml.paths import CHECKOUT

COURSE = schedule.load()


@pytest.fixture(scope="module")
def people():
    return made_up.people(40, COURSE, CHECKOUT / "tests")


def test_twelve_are_enough_for_every_kind(people):
    assert {person.kind for person in people[:12]} == {
        "right", "wrong", "empty", "broken", "hostile",
    }  # fmt: skip
    assert people == made_up.people(40, COURSE, CHECKOUT / "tests")
    assert people[:12] == made_up.people(12, COURSE, CHECKOUT / "tests")


def test_they_differ_where_the_course_has_more_than_one_of_a_kind(people):
    different = {kind: set() for kind in made_up.KINDS}
    for person in people:
        different[person.kind].add(person.file)
    counts = Counter(person.kind for person in people)
    assert len(different["wrong"]) == counts["wrong"]
    # Exercises take turns, also among who hands in none or a broken one: few are there twice.
    assert len(different["right"]) > 0.9 * counts["right"]
    assert len(different["broken"]) == 2
    assert len(different["hostile"]) >= 3


def test_what_they_may_get_is_what_they_are(people):
    for person in people:
        if person.kind == "right":
            assert person.least == person.most > 0
        else:
            assert person.least == 0
            assert (person.most > 0) == (person.kind == "wrong")


def test_they_hand_in_what_the_grader_reads(people, tmp_path):
    made_up.write(people, tmp_path / "class")
    read = {each.person: each for each in intake.collect([tmp_path / "class"], tmp_path)}
    assert sorted(read) == sorted(person.name for person in people)
    broken = [read[person.name] for person in people if person.kind == "broken"]
    assert [bool(each.refused) for each in broken] == [False, True]
    assert broken[0].answers
    for person in people:
        if person.kind in ("right", "wrong", "hostile"):
            assert len(read[person.name].answers) == 1, person.name
        if person.kind == "empty":
            assert all(answer.is_stub for answer in read[person.name].answers.values())


def test_attacks_that_may_earn_something_stay_at_home(tmp_path):
    heads = {"a": "expect: 0", "b": "expect: full", "c": "expect: 1"}
    for name, head in heads.items():
        words = f"# row: 1\n# tries: it\n# unprotected: bad\n# {head}\n"
        text = f"# %%answer hello_ranks\n{words}attack = '{name}'\n"
        (tmp_path / f"{name}.py").write_text(text)
    ((exercise, source),) = made_up._hostile(tmp_path)
    assert exercise == "hello_ranks"
    assert "attack = 'a'" in source


def test_the_answer_is_the_cell_of_a_notebook():
    notebook = json.loads(made_up._notebook("ddp", "x = 1\n"))
    assert [cell["source"] for cell in notebook["cells"]] == ["%%answer ddp\nx = 1\n"]
