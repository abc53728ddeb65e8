"""A file is the old one or the whole new one, and looks like any other file."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from hpml.files import atomic


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "marks.json"
    path.write_text("old")
    return path


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("meanwhile", ["", "marks.unfinished"])
def test_the_old_file_is_there_until_the_new_one_is_whole(path, durable, meanwhile):
    with atomic.replacing(path, durable=durable, meanwhile=meanwhile) as file:
        file.write(b"ne")
        file.flush()
        assert path.read_text() == "old"
        assert len(names(path.parent)) == 2
        file.write(b"w")
    assert path.read_text() == "new"
    assert names(path.parent) == ["marks.json"]


@pytest.mark.parametrize("error", [OSError("no room"), KeyboardInterrupt()])
def test_what_fails_half_way_leaves_the_old_file_and_nothing_else(path, error):
    def write():
        with atomic.replacing(path) as file:
            file.write(b"ne")
            raise error

    with pytest.raises(type(error)):
        write()
    assert path.read_text() == "old"
    assert names(path.parent) == ["marks.json"]


def test_a_name_that_cannot_be_taken_leaves_nothing(tmp_path):
    (tmp_path / "folder" / "full").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        atomic.write_text(tmp_path / "folder", "x")
    assert names(tmp_path) == ["folder"]
    with pytest.raises(FileNotFoundError):
        atomic.write_bytes(tmp_path / "nowhere" / "file", b"x")


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_the_permissions_are_those_of_any_new_file(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        atomic.write_text(tmp_path / "file", "é")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode
    assert (tmp_path / "file").read_bytes() == b"\xc3\xa9"


def test_what_is_durable_is_on_the_disk_before_it_has_the_name_and_then_the_name(path, monkeypatch):
    done = []
    fsync, replace = os.fsync, os.replace

    def forced(descriptor):
        done.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", forced)
    monkeypatch.setattr(os, "replace", lambda *names: done.append("name") or replace(*names))
    atomic.write_bytes(path, b"new", durable=True)
    assert done == ["file", "name", "folder"]
    atomic.write_bytes(path, b"newer")
    assert done[3:] == ["name"]


def test_of_several_who_create_a_file_one_does(tmp_path):
    path = tmp_path / "secret"
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda n: atomic.create(path, b"%d" % n, private=True), range(8)))
    assert sum(made) == 1
    assert path.read_bytes() == b"%d" % made.index(True)
    assert path.stat().st_mode & 0o777 == 0o600
    assert atomic.create(tmp_path / "plan", b"x")
    other = tmp_path / "other"
    other.write_bytes(b"")
    assert (tmp_path / "plan").stat().st_mode == other.stat().st_mode
    assert sorted(each.name for each in tmp_path.iterdir()) == ["other", "plan", "secret"]
