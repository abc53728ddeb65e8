"""What is kept between runs: made once, anew where a test is tried again, and never in the way."""

import contextlib

import pytest

from . import kept


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HPML_CACHE", str(tmp_path))
    monkeypatch.delenv(kept.AGAIN, raising=False)
    return tmp_path / "tests"


def test_a_value_is_made_once_for_each_key_and_anew_at_the_second_try(monkeypatch):
    made = iter(range(10))
    assert [kept.once("a", lambda: next(made)) for _ in range(3)] == [0, 0, 0]
    assert kept.once("b", lambda: next(made)) == 1
    monkeypatch.setenv(kept.AGAIN, "1")
    assert kept.once("a", lambda: next(made)) == 2
    monkeypatch.delenv(kept.AGAIN)
    assert kept.once("a", lambda: next(made)) == 2


def test_what_cannot_be_kept_is_made_each_time(folder):
    made = iter(range(10))
    assert [kept.once("a", lambda: (next(made), lambda: 0))[0] for _ in range(2)] == [0, 1]
    assert kept.once("b", lambda: next(made)) == 2
    (folder / "runs" / "b.pickle").write_bytes(b"cut off")
    assert kept.once("b", lambda: next(made)) == 3


def test_changes_are_added_to_what_others_wrote(folder):
    for name in ("one", "two"):
        with kept.changing("times.json") as value:
            value[name] = 1
    assert kept.read("times.json") == {"one": 1, "two": 1}
    with contextlib.suppress(ValueError), kept.changing("times.json") as value:
        value["three"] = 1
        raise ValueError
    (folder / "luck.json").write_text("{")
    assert kept.read("luck.json") == {}
    assert "three" not in kept.read("times.json")


def test_a_folder_that_cannot_be_written_to_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HPML_CACHE", str(tmp_path / "file"))
    with kept.changing("times.json") as value:
        value["one"] = 1
    assert kept.read("times.json") == {}
    assert kept.once("a", lambda: 5) == 5


def test_the_runs_that_were_not_asked_for_longest_go(monkeypatch):
    for name in "abcd":
        kept.once(name, lambda: b"x" * 1000)
    monkeypatch.setattr(kept, "RUNS", 3000)
    kept.tidy()
    assert len(list(kept.folder().glob("runs/*"))) == 2
