"""The wheels that are kept: whole, of just one flavour each, and one build at a time."""

import dataclasses
import multiprocessing
import os
from pathlib import Path

import pytest

from hpml.horovod import cache
from hpml.horovod.flavour import Flavour

FLAVOUR = Flavour(
    "0.28.1", "p", "cp311", "torch 2", "tensorflow-cpu 2", "m", "", "g++", "", "linux"
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("HPML_CACHE", str(tmp_path))
    cache.folder().mkdir()
    return cache.folder()


@pytest.fixture
def wheel(tmp_path) -> Path:
    path = tmp_path / "horovod.whl"
    path.write_bytes(b"wheel")
    return path


def test_what_was_stored_is_found_with_its_shortfalls(wheel):
    assert cache.find(FLAVOUR) is None
    kept = cache.store(FLAVOUR, wheel, ["no mpirun"])
    assert kept == cache.find(FLAVOUR) != wheel
    assert kept.read_bytes() == b"wheel"
    assert cache.shortfalls(FLAVOUR) == ["no mpirun"]


@pytest.mark.parametrize(
    "part", [field.name for field in dataclasses.fields(Flavour) if field.name != "notes"]
)
def test_another_version_of_anything_is_another_wheel(wheel, part):
    cache.store(FLAVOUR, wheel)
    other = dataclasses.replace(FLAVOUR, **{part: "other"})
    assert other.key != FLAVOUR.key
    assert cache.find(other) is None


def test_notes_make_no_difference(wheel):
    cache.store(FLAVOUR, wheel)
    assert cache.find(dataclasses.replace(FLAVOUR, notes=("without MPI",)))


def test_a_wheel_takes_the_place_of_an_earlier_one_and_nothing_else_stays(wheel, folder):
    cache.store(FLAVOUR, wheel)
    wheel.write_bytes(b"better")
    assert cache.store(FLAVOUR, wheel).read_bytes() == b"better"
    assert [path.name for path in folder.iterdir()] == [FLAVOUR.key]


@pytest.mark.parametrize("damage", ["wheel", "facts", "no wheel"])
def test_a_damaged_wheel_is_not_found(wheel, damage):
    kept = cache.store(FLAVOUR, wheel)
    if damage == "wheel":
        kept.write_bytes(b"whee")
    elif damage == "facts":
        (kept.parent / "built.json").write_text('{"wheel": ')
    else:
        kept.unlink()
    assert cache.find(FLAVOUR) is None


def test_a_copy_that_breaks_off_leaves_nothing(wheel, folder, monkeypatch):
    def full(source, target):
        Path(target).write_bytes(b"wh")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache.shutil, "copy2", full)
    with pytest.raises(OSError, match="No space"):
        cache.store(FLAVOUR, wheel)
    assert cache.find(FLAVOUR) is None
    assert list(folder.iterdir()) == []


def test_what_a_killed_build_left_goes_with_the_next_lock(folder):
    (folder / "building-x" / "deep").mkdir(parents=True)
    with cache.locked(lambda: None):
        assert [path.name for path in folder.iterdir()] == ["lock"]


def _hold(free, held) -> None:
    with cache.locked(lambda: None):
        held.set()
        free.wait(60)


def test_the_second_waits_for_the_first_and_its_caller_is_called(folder):
    context = multiprocessing.get_context("fork")
    free, held = context.Event(), context.Event()
    first = context.Process(target=_hold, args=(free, held))
    first.start()
    assert held.wait(60)
    waits = []

    def on_wait() -> None:
        waits.append("waits")
        free.set()

    with cache.locked(on_wait):
        assert waits == ["waits"]
    first.join(60)
    with cache.locked(on_wait):
        assert waits == ["waits"]


def test_a_killed_holder_does_not_keep_the_lock(folder):
    context = multiprocessing.get_context("fork")
    free, held = context.Event(), context.Event()
    first = context.Process(target=_hold, args=(free, held))
    first.start()
    assert held.wait(60)
    os.kill(first.pid, 9)
    first.join(60)
    waits = []
    with cache.locked(lambda: waits.append("waits")):
        assert waits == []


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.folder() == tmp_path / "horovod"
    monkeypatch.delenv("HPML_CACHE")
    assert cache.folder() == tmp_path / "xdg" / "hpml" / "horovod"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # which the XDG specification has ignored
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.folder() == tmp_path / ".cache" / "hpml" / "horovod"
    with cache.using(tmp_path / "elsewhere"):
        assert cache.folder() == tmp_path / "elsewhere"
