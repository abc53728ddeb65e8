"""The board: a file for each learner, and whatever else is in the folder harms nobody."""

import json
import os
from dataclasses import replace

import pytest

from hpml.errors import UserError
from hpml.train.race import board

from .made_tries import TINY, below, made


@pytest.fixture
def learner(tmp_path, monkeypatch):
    """`learner("ada")` makes what follows happen on that learner's machine."""

    def of(name: str) -> None:
        monkeypatch.setenv("HPML_HOME", str(tmp_path / "homes" / name))

    return of


@pytest.fixture
def shared(tmp_path):
    folder = tmp_path / "shared"
    folder.mkdir()
    return folder


def test_each_learner_has_a_file_and_the_quickest_stands_first(learner, shared):
    for name, seconds in (("ada", 5.0), ("bob", 3.0)):
        learner(name)
        board.publish(shared, name, [below(), made(seconds), made(8.0)])
    entries, unreadable = board.read(shared, TINY, synthetic=True)
    assert [(each.name, each.best.seconds, each.tried) for each in entries] == [
        ("bob", 3.0, 3),
        ("ada", 5.0, 3),
    ]
    assert unreadable == []
    assert len(list(shared.iterdir())) == 2


def test_two_of_the_same_name_are_two_and_one_who_is_renamed_is_one(learner, shared):
    learner("first")
    board.publish(shared, "sam", [made(5.0)])
    learner("second")
    board.publish(shared, "sam", [made(4.0)])
    board.publish(shared, "../../sam$\\frac", [made(4.0)])
    entries, _ = board.read(shared, TINY, synthetic=True)
    assert [each.name for each in entries] == ["../../sam$\\frac", "sam"]
    assert len(list(shared.iterdir())) == 2


def test_who_has_not_reached_a_goal_is_not_on_it(learner, shared):
    learner("ada")
    assert board.publish(shared, "ada", [below()]) is None
    assert list(shared.iterdir()) == []


def test_tries_for_other_goals_or_other_images_are_not_shown(learner, shared):
    learner("ada")
    board.publish(shared, "ada", [replace(made(1.0), synthetic=False), replace(made(), goal="x")])
    assert board.read(shared, TINY, synthetic=True) == ([], [])
    assert len(board.read(shared, TINY, synthetic=False)[0]) == 1


def test_what_is_torn_or_hostile_is_skipped_by_name(learner, shared, tmp_path):
    learner("ada")
    good = board.publish(shared, "ada", [made()])
    content = json.loads(good.read_text())
    secret = tmp_path / "secret"
    secret.write_text(good.read_text())

    def put(name: str, text: str) -> None:
        (shared / f"{name}.race.json").write_text(text)

    put("torn", good.read_text()[:50])
    put("empty", "")
    put("deep", "[" * 100_000)
    put("large", " " * board.LARGEST + good.read_text())
    put("list", "[]")
    put("name", json.dumps(content | {"name": 7}))
    put("many", json.dumps(content | {"tries": content["tries"] * 100}))
    put("nan", json.dumps(content | {"tries": [content["tries"][0] | {"accuracy": float("nan")}]}))
    put("tried", json.dumps(content | {"tries": [content["tries"][0] | {"tried": -1}]}))
    (shared / "link.race.json").symlink_to(secret)
    (shared / "folder.race.json").mkdir()
    os.mkfifo(shared / "pipe.race.json")
    (shared / "notes.txt").write_text("not ours")
    entries, unreadable = board.read(shared, TINY, synthetic=True)
    assert [each.name for each in entries] == ["ada"]
    assert len(unreadable) == 12


def test_a_name_cannot_redraw_the_table(learner, shared):
    learner("ada")
    path = board.publish(shared, "ada", [made()])
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"name": "\x1b[31mred\n\u202eeve" + "x" * 500}))
    ((entry,), _) = board.read(shared, TINY, synthetic=True)
    assert entry.name.isprintable()
    assert len(entry.name) <= board.NAME


def test_a_folder_that_is_not_there_and_a_name_that_is_empty_are_refused(learner, shared):
    learner("ada")
    with pytest.raises(UserError, match=r"--board .*none.*: name a folder that is there"):
        board.publish(shared / "none", "ada", [made()])
    with pytest.raises(UserError, match=r"--board .*none.*: name a folder that is there"):
        board.read(shared / "none", TINY, synthetic=True)
    with pytest.raises(UserError, match="--name is empty"):
        board.publish(shared, "  ", [made()])
