"""In which order Horovod is built, verified, kept and installed, and what is remembered.

pip, the compiler and the ranks are stand-ins here; test_verify.py has the real ones.
"""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from importlib import metadata

import psutil
import pytest

from hpml import cli
from hpml.errors import UserError
from hpml.horovod import VERSION, __main__, cache, install, state
from hpml.horovod.flavour import Flavour
from hpml.horovod.progress import Progress

FLAVOUR = Flavour(
    VERSION, "p", "cp311", "torch 2", "tensorflow-cpu 2", "", "", "g++", "", "linux", ("no MPI: x",)
)


class World:
    """What happened, in order; `fails` names the steps that fail, with their reason."""

    def __init__(self):
        self.done = []
        self.fails = {}
        self.flavour, self.missing = FLAVOUR, []
        self.installed = None
        self.out = io.StringIO()

    def step(self, name: str) -> None:
        self.done.append(name)
        if name in self.fails:
            raise self.fails[name]

    def build(self, flavour, folder, log, progress):
        self.step("build")
        wheel = folder / "horovod.whl"
        wheel.write_bytes(b"wheel")
        return wheel

    def verify(self, flavour, log, site):
        self.step("verify")
        return ["mpirun starts no ranks"]

    def pip(self, wheel, log, *where):
        assert wheel.read_bytes() == b"wheel"
        self.step("stage" if where else "install")
        if not where:
            self.installed = VERSION

    def version(self, name):
        assert name == "horovod"
        if self.installed is None:
            raise metadata.PackageNotFoundError
        return self.installed

    def ensure(self, **options) -> state.State:
        self.done, self.out = [], io.StringIO()
        return install.ensure(Progress(self.out), **options)


@pytest.fixture
def world(tmp_path, monkeypatch):
    world = World()
    monkeypatch.setenv("HPML_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HPML_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(state, "file", lambda: tmp_path / "state.json")
    monkeypatch.setattr(state, "installed", lambda: world.flavour.frameworks)
    monkeypatch.setattr(state.metadata, "version", world.version)
    monkeypatch.setattr(install, "detect", lambda: (world.flavour, world.missing))
    monkeypatch.setattr(install, "build", world.build)
    monkeypatch.setattr(install, "verify", world.verify)
    monkeypatch.setattr(install, "check_starts", lambda log: world.step("loads"))
    monkeypatch.setattr(install, "_pip", world.pip)
    monkeypatch.setattr(install, "_uninstall", lambda: setattr(world, "installed", None))
    return world


def kept() -> list[str]:
    return sorted(path.name for path in cache.folder().iterdir())


def test_it_is_verified_before_it_is_kept_or_installed(world):
    found = world.ensure()
    assert world.done == ["build", "stage", "verify", "install"]
    assert found.works
    assert str(found) == f"{VERSION} over Gloo, for torch 2, tensorflow-cpu 2"
    assert found.notes == ("no MPI: x", "mpirun starts no ranks")
    output = world.out.getvalue()
    assert "no MPI: x" in output
    assert "about 4 minutes" in output
    assert kept() == [FLAVOUR.key, "lock"]


def test_what_is_there_is_left_alone(world):
    first = world.ensure()
    assert world.ensure() == first
    assert world.done == []
    assert world.out.getvalue() == ""


def test_a_second_environment_takes_it_from_the_cache(world):
    first = world.ensure()
    state.file().unlink()
    world.installed = None
    assert world.ensure() == first
    assert world.done == ["install", "loads"]


def test_anew_is_anew(world):
    world.ensure()
    assert world.ensure(anew=True).works
    assert world.done == ["build", "stage", "verify", "install"]


def test_a_kept_wheel_that_does_not_start_is_built_anew(world):
    world.ensure()
    state.file().unlink()
    world.fails["loads"] = UserError("horovod: it does not start")
    assert world.ensure().works
    assert world.done == ["install", "loads", "build", "stage", "verify", "install"]
    assert "it does not start; building it anew" in world.out.getvalue()


@pytest.mark.parametrize("step", ["build", "stage", "verify"])
def test_what_is_not_right_is_neither_kept_nor_installed(world, step):
    world.fails[step] = UserError("horovod: reason")
    found = world.ensure()
    assert not found.works
    assert found.reason == "reason"
    assert world.done[-1] == step
    assert kept() == ["lock"]
    assert state.read() == found


def test_what_is_missing_is_reported_one_by_one_and_nothing_is_tried(world):
    world.flavour, world.missing = None, ["no C++ compiler: apt install g++", "no Python.h: apt"]
    found = world.ensure()
    assert found.reason == "no C++ compiler: apt install g++; no Python.h: apt"
    assert world.done == []
    assert world.out.getvalue().splitlines() == [
        "hpml: Horovod: no C++ compiler: apt install g++",
        "hpml: Horovod: no Python.h: apt",
    ]


def test_an_interrupted_build_leaves_nothing_and_is_remembered(world):
    world.fails["verify"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        world.ensure()
    assert kept() == ["lock"]
    assert "interrupted" in state.read().reason
    assert "./hpml horovod" in state.read().reason
    world.fails = {}
    assert world.ensure().works


def test_other_frameworks_make_it_useless_and_it_is_built_for_them(world):
    world.ensure()
    world.flavour = Flavour(**{**vars(FLAVOUR), "torch": "torch 3"})
    found = state.read()
    assert not found.works
    assert found.reason == (
        "it was built for torch 2, tensorflow-cpu 2; here is torch 3, tensorflow-cpu 2"
    )
    assert world.ensure().works
    assert "build" in world.done
    world.flavour = Flavour(**{**vars(FLAVOUR), "torch": "torch 4"})
    world.fails["build"] = UserError("horovod: reason")
    assert not world.ensure().works
    assert world.installed is None  # the one for torch 3 would not start


def test_a_better_flavour_that_cannot_be_built_leaves_the_one_that_works(world):
    before = world.ensure()
    world.flavour = Flavour(**{**vars(FLAVOUR), "mpi": "Open MPI"})
    world.fails["build"] = UserError("horovod: reason")
    assert world.ensure() == before
    assert "hpml: Horovod: reason" in world.out.getvalue()
    assert world.installed == VERSION


@pytest.mark.parametrize("works", [True, False])
def test_set_up_remembers_whether_mpi_was_there_and_so_proposes_it_once(
    world, tmp_path, monkeypatch, works
):
    monkeypatch.setenv("PATH", str(tmp_path))
    world.ensure()
    assert '"mpicxx": ""' in state.file().read_text()
    mpicxx = tmp_path / "mpicxx"
    mpicxx.write_text("#!/bin/sh\n")
    mpicxx.chmod(0o755)
    world.flavour = Flavour(**{**vars(FLAVOUR), "mpi": "Open MPI"})
    if not works:
        world.fails["build"] = UserError("horovod: reason")
    assert world.ensure().works
    assert "build" in world.done
    assert state.read().mpicxx == str(mpicxx)
    assert state.read().transports == ("Gloo, MPI" if works else "Gloo")


def test_what_pip_has_taken_away_does_not_count_as_working(world):
    world.ensure()
    world.flavour = Flavour(**{**vars(FLAVOUR), "mpi": "Open MPI"})
    world.fails["install"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        world.ensure()
    assert "interrupted" in state.read().reason
    world.fails["install"] = UserError("horovod: pip install exits 1")
    assert world.ensure().reason == "pip install exits 1"
    assert world.installed is None


def test_a_horovod_that_went_or_came_by_other_ways_is_seen(world):
    world.installed = "0.28.0"
    assert state.read().reason == "0.28.0 is installed, but was never tried here"
    world.ensure()
    world.installed = "0.27.0"
    assert "0.27.0 is installed, the course is made for 0.28.1" in state.read().reason
    world.installed = None
    assert state.read().reason == "it has been uninstalled"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"key": "x"}', '{"notes": 1}', '{"notes": [], "a": 1}']
)
def test_a_damaged_note_is_as_good_as_none(world, text):
    state.file().write_text(text)
    assert state.read() == state.State()


def test_a_cache_that_cannot_be_written_costs_only_the_keeping(world, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("HPML_CACHE", str(tmp_path / "file"))
    assert world.ensure().works
    assert "its wheel is not kept" in world.out.getvalue()
    assert world.done == ["build", "stage", "verify", "install"]


@pytest.mark.parametrize("works", [True, False])
def test_set_up_reports_the_state_in_one_line(monkeypatch, capsys, works):
    found = state.State("key", "Gloo", "torch 2", reason="") if works else state.State(reason="why")
    monkeypatch.setattr(__main__, "ensure", lambda progress: found)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert __main__.main() == (0 if works else 2)
    (line,) = capsys.readouterr().err.splitlines()
    if works:
        assert line == f"hpml: Horovod {VERSION} over Gloo, for torch 2 is there"
    else:
        assert "no Horovod: why" in line
        assert "module 05" in line
        assert "./hpml horovod" in line


@pytest.mark.parametrize("works", [True, False])
def test_the_command_reports_what_is_there_or_why_not(monkeypatch, capsys, works):
    found = state.State("key", "Gloo", "torch 2", ("without MPI",), "")
    monkeypatch.setattr(
        install, "ensure", lambda progress, anew: found if works else state.State(reason="why")
    )
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        cli.main(["horovod"])
    output = capsys.readouterr()
    if works:
        assert ended.value.code == 0
        assert output.out == f"Horovod {VERSION} over Gloo, for torch 2\n  without MPI\n"
    else:
        assert ended.value.code == 2
        assert output.err == "hpml: no Horovod: why\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_build_with_all_its_processes(tmp_path, number, code):
    """The real program, with a pip that does not come to an end."""
    program = """
import sys
from hpml.horovod import __main__, command, flavour, install, state
from pathlib import Path
root = Path(sys.argv[1])
state.file = lambda: root / "state.json"
install.detect = lambda: (flavour.Flavour(*"abcdefghij"), [])
install._uninstall = lambda: None
def build(flavour, folder, log, progress):
    shell = "echo $$ > pid.half; mv pid.half pid; sleep 60; :"
    command.run(["sh", "-c", shell], limit=60, log=log, folder=root)
install.build = build
sys.exit(__main__.main())
"""
    environment = {
        **os.environ,
        "HPML_CACHE": str(tmp_path / "c"),
        "HPML_HOME": str(tmp_path / "h"),
    }
    running = subprocess.Popen(
        [sys.executable, "-c", program, tmp_path],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    for _ in range(3000):
        if (tmp_path / "pid").exists():
            break
        time.sleep(0.01)
    running.send_signal(number)
    output = running.communicate(timeout=60)[1]
    assert running.returncode == code, output
    assert "Traceback" not in output
    group = int((tmp_path / "pid").read_text())
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
            ended = process.status() == psutil.STATUS_ZOMBIE  # until init looks
            assert ended or os.getpgid(process.pid) != group
    assert "interrupted" in json.loads((tmp_path / "state.json").read_text())["reason"]
    assert [path.name for path in (tmp_path / "c" / "horovod").iterdir()] == ["lock"]
