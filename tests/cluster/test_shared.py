"""What nodes share of /tmp, of which each has its own."""

import sys
from pathlib import Path

import pytest

from hpml.cluster import lifecycle


@pytest.fixture
def places(monkeypatch):
    """`places(…)`: where the project, its files, Python and the user's home folder are."""

    def are(project: str, files: str, python: str, user: str, added: str = "") -> list[str]:
        monkeypatch.setattr(lifecycle, "CHECKOUT", Path(project))
        monkeypatch.setattr(lifecycle, "home", lambda: Path(files))
        monkeypatch.setattr(sys, "prefix", python)
        monkeypatch.setattr(sys, "base_prefix", "/usr")
        monkeypatch.setattr(Path, "home", lambda: Path(user))
        monkeypatch.setattr(Path, "exists", lambda path: True)
        monkeypatch.setenv("PYTHONPATH", added)
        return lifecycle.shared_folders()

    return are


def test_nothing_of_tmp_is_shared_where_nothing_of_ours_is_there(places):
    assert places("/home/a/hpml", "/home/a/hpml/.hpml", "/home/a/hpml/.venv", "/home/a") == []


def test_what_of_ours_is_there_is_shared_once(places):
    shared = places("/tmp/p", "/tmp/p/.hpml", "/tmp/env", "/root", "/tmp/more:/tmp/p/src")
    assert shared == ["/tmp/env", "/tmp/more", "/tmp/p"]


@pytest.mark.parametrize("user", ["/", "/tmp"])
def test_a_home_folder_above_the_project_does_not_hide_it(places, user):
    assert places("/tmp/p", "/tmp/q", "/usr", user) == ["/tmp/p", "/tmp/q"]
