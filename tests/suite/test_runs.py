"""Whole runs of small suites: bad luck, in turn, quick, and a limit on time."""

import json
import secrets
import subprocess
from pathlib import Path

import pytest

from . import orphans, plugin
from .passed import FILE

pytest_plugins = ["pytester"]

CONFTEST = f"""
import sys
sys.path.insert(0, {str(Path(plugin.__file__).parents[1])!r})
from suite import plugin
import pytest

def pytest_addoption(parser):
    plugin.add_options(parser)

def pytest_configure(config):
    plugin.configure(config)

@pytest.fixture
def in_turn(request):
    turns = request.config.pluginmanager.get_plugin("hpml turns")
    return lambda kind, keys: turns.choose(request, kind, keys)
"""


@pytest.fixture
def suite(pytester, monkeypatch):
    """`suite(text of a test file, *options)`: exit code, and what was printed."""
    monkeypatch.setenv("HPML_CACHE", str(pytester.path / "cache"))
    monkeypatch.setenv("CI", "")
    (pytester.path / FILE).parent.mkdir()
    monkeypatch.delenv("HPML_TESTS_AGAIN", raising=False)
    pytester.makeconftest(CONFTEST)
    pytester.makeini("[pytest]\ntestpaths = .\naddopts = -p no:cacheprovider\n")

    def run(text: str, *options: str) -> tuple[int, str]:
        pytester.makepyfile(test_it=text)
        ended = pytester.runpytest_subprocess("-q", *options)
        return ended.ret, ended.stdout.str()

    return run


LUCKY = """
import pathlib, pytest
@pytest.mark.measures
def test_clock():
    tries = pathlib.Path("tries")
    tries.write_text(tries.read_text() + "x" if tries.exists() else "x")
    assert len(tries.read_text()) % 2 == 0  # each first time fails

def test_sure(): pass
"""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_what_measures_is_tried_once_more_and_the_third_time_is_red(suite, workers):
    for _ in range(2):
        code, said = suite(LUCKY, "-n", workers)
        assert (code, said.splitlines()[-1]) == (
            0,
            "passed at the second try, alone: test_it.py::test_clock",
        ), said
    code, said = suite(LUCKY, "-n", workers)
    assert code == 1
    assert said.splitlines()[-1] == (
        "test_it.py::test_clock was lucky 3 times in the last 20 runs: it has to be mended"
    )


def test_what_fails_twice_is_red_and_so_is_what_measures_nothing(suite):
    mark = "import pytest\n@pytest.mark.measures\ndef test_clock(): assert 0\n"
    code, said = suite(mark)
    assert (code, said.count("once more, alone")) == (1, 1)
    other = "import pathlib\ndef test_fact():\n    assert not pathlib.Path('x').mkdir() and 0\n"
    code, said = suite(other)
    assert (code, said.count("once more, alone")) == (1, 0)
    code, said = suite(f"{LUCKY}\ndef test_wrong(): assert 0\n")
    assert (code, said.count("once more, alone")) == (1, 0)


def test_a_failure_is_named_at_once(suite):
    code, said = suite("def test_wrong(): assert 1 == 2\n", "-n", "2")
    named = "FAILED test_it.py::test_wrong - assert 1 == 2"
    assert code == 1
    assert f"F\n{named}\n" in said.partition("= FAILURES =")[0], said
    code, said = suite("import pytest\n@pytest.fixture\ndef f(): 1 / 0\ndef test_wrong(f): pass\n")
    assert "\nFAILED test_it.py::test_wrong - ZeroDivisionError: division by zero\n" in said


IN_TURN = """
import pytest
@pytest.mark.parametrize("n", [
    pytest.param(n, marks=pytest.mark.in_turn("answers", str(n), ["test_it.py"], f"text {n}"))
    for n in range(10)
])
def test_it(n): assert n != BAD

def test_many(in_turn):
    names = in_turn("attacks", {"a": "1", "b": "2"})
    assert set(names) <= {"a", "b"}
"""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_in_turn_plays_what_is_new_what_failed_and_a_ninth(suite, workers):
    def lines(bad, *options):
        said = suite(IN_TURN.replace("BAD", str(bad)), "-n", workers, *options)[1]
        return [line for line in said.splitlines() if " played, " in line]

    assert lines(3) == [
        "answers: 10 of 10 played, 10 of them new or changed",
        "attacks: 2 of 2 played, 2 of them new or changed",
    ]
    # The test file is another, and so is every key that it is part of
    assert lines(4)[0] == "answers: 10 of 10 played, 10 of them new or changed"
    assert lines(4) == [
        "answers: 2 of 10 played, 1 of them new or changed",
        "attacks: 1 of 2 played, 0 of them new or changed",
    ]
    assert lines(4, "--quick") == []
    assert lines(4, "--all")[0].startswith("answers: 10 of 10")


def test_when_time_is_up_what_only_had_its_turn_is_left_and_what_changed_is_not(suite, pytester):
    pytester.makeconftest(f"{CONFTEST}\nfrom suite import plugin\nplugin.FOR_TURNS = 0\n")

    def lines(bad):
        said = suite(IN_TURN.replace("BAD", str(bad)), "--limit=5")[1].splitlines()
        return [
            line for line in said if " passed in" in line or "skipped" in line or "time" in line
        ]

    (line,) = lines(99)
    assert line.startswith("11 passed")  # all is new
    there = (pytester.path / FILE).read_text()
    passed, said = lines(99)
    assert passed.startswith("3 skipped")
    assert said == "not tested: 3 tests, as left out: no time was left for what only had its turn"
    assert (pytester.path / FILE).read_text() == there  # what was left counts as it did


KILLED = """
import subprocess, time, pytest
@pytest.mark.timeout(1, method="thread")
def test_it():
    subprocess.Popen(["setsid", "sleep", "1000"], env={**__import__("os").environ, "LEFT": "TOKEN"})
    time.sleep(60)
"""


def test_what_a_killed_worker_started_is_ended(suite):
    token = secrets.token_hex()
    code, said = suite(KILLED.replace("TOKEN", token), "-n", "1")
    assert (code, "crashed while running" in said) == (1, True)
    assert orphans.inherited(LEFT=token) == []


LECTURE = """
import time
import pytest

def log(what, seconds):
    with open("log", "a") as file: file.write(f"{what} begins\\n")
    time.sleep(seconds)
    with open("log", "a") as file: file.write(f"{what} ends\\n")

@pytest.mark.xdist_group("lectures")
@pytest.mark.parametrize("number", range(3))
def test_lecture(number): log("lecture", 0.5)

@pytest.mark.parametrize("number", range(12))
def test_other(number): log("other", 0.2)
"""


def test_nothing_runs_beside_a_lecture(suite, pytester):
    code, said = suite(LECTURE, "-n", "3", "--dist", "loadgroup", "--no-loadscope-reorder")
    assert (code, "15 passed" in said) == (0, True)
    lines = (pytester.path / "log").read_text().splitlines()
    for begins in [at for at, line in enumerate(lines) if line == "lecture begins"]:
        before = lines[:begins]
        assert lines[begins + 1] == "lecture ends"
        assert before.count("other begins") == before.count("other ends")
    # Others do run beside each other
    assert any(lines[at : at + 2] == ["other begins"] * 2 for at in range(len(lines)))


DRAWN = """
from hypothesis import given, settings, strategies
@settings(max_examples=5)
@given(strategies.integers(0, 2**60))
def test_drawn(number): print("drew", number)
"""


def test_examples_are_the_same_each_time_but_when_everything_is_played(suite):
    def drawn(*options):
        return [line for line in suite(DRAWN, "-s", *options)[1].splitlines() if "drew" in line]

    assert drawn() == drawn()
    assert drawn() != drawn("--all")


LONG = """
import time
def test_sleeps(): time.sleep(0.2)
def test_beside(): assert RIGHT
"""


def test_a_file_that_takes_long_is_in_turn_as_a_whole(suite, pytester):
    pytester.makeconftest(f"{CONFTEST}\nfrom suite import turns\nturns.LONG = 0.2\n")

    def turns(text, *options):
        said = suite(text, *options)[1].splitlines()
        return [line for line in said if " played, " in line or " in " in line]

    right, wrong = (LONG.replace("RIGHT", word) for word in ("1", "0"))
    assert turns(right)[0].startswith("2 passed")  # nobody has timed it yet
    kind = "files of long tests: 1 of 1 played"
    assert turns(right)[1:] == [f"{kind}, 1 of them new or changed"]
    assert turns(right, "-k", "sleeps")[0].startswith("1 passed")
    assert turns(wrong)[-1] == f"{kind}, 1 of them new or changed"
    assert turns(wrong, "-k", "sleeps")[0].startswith("1 passed")
    assert turns(wrong)[-1] == f"{kind}, 1 of them new or changed"  # half of it proves nothing
    assert turns(right)[-1] == f"{kind}, 0 of them new or changed"  # as it was green before


def test_what_was_green_is_in_turn_where_nothing_is_kept(suite, pytester, monkeypatch):
    file = pytester.path / FILE

    def lines(text, cache, *options):
        monkeypatch.setenv("HPML_CACHE", str(pytester.path / cache))
        code, said = suite(text, *options)
        kept = [line for line in said.splitlines() if " played, " in line or "anew" in line]
        return [code, *kept]

    right = IN_TURN.replace("BAD", "99")
    anew = f"{FILE} is written anew: commit it with what you changed"
    assert lines(IN_TURN.replace("BAD", "3"), "first")[0] == 1
    assert not file.exists()  # it was red
    assert lines(right, "first", "--collect-only")[0] == 0
    assert not file.exists()
    assert lines(right, "first")[::3] == [0, anew]
    assert lines(right, "first", "-k", "many") == [0]
    there = file.read_text()
    assert "# runs: 1\n" in there
    monkeypatch.setenv("CI", "true")
    assert lines(right, "second") == [
        0,
        "answers: 2 of 10 played, 0 of them new or changed",
        "attacks: 1 of 2 played, 0 of them new or changed",
    ]
    # A skip proves nothing; and CI writes nothing
    skipped = right.replace("assert n != 99", "n == 5 and pytest.skip('not here')")
    assert lines(skipped, "third")[1].startswith("answers: 10 of 10 played")
    assert file.read_text() == there
    monkeypatch.setenv("CI", "")
    lines(skipped, "third")
    assert lines(skipped, "fourth")[1] == "answers: 2 of 10 played, 1 of them new or changed"


QUICK = """
import multiprocessing, subprocess, threading, time, pytest
@pytest.fixture(scope="module")
def started(): return subprocess.run(["true"])
def test_quick(): pass
def test_starts(): subprocess.run(["true"])
def test_shares(started): pass
def test_in_a_thread():
    thread = threading.Thread(target=subprocess.run, args=(["true"],))
    thread.start()
    thread.join()
def test_forks(): multiprocessing.get_context("forkserver").Process(target=print).start()
def test_slow(): time.sleep(1.1)
"""


def test_quick_leaves_out_what_starts_something_or_is_slow(suite):
    code, said = suite(QUICK, "--quick")
    assert code == 0
    assert "3 passed, 3 skipped" in said  # nobody has timed test_slow yet
    assert "left out: it starts a process" in said
    assert "6 passed" in suite(QUICK)[1]
    assert "1 passed, 5 deselected" in suite(QUICK, "--quick")[1]


def test_changed_plays_what_rests_on_the_change(suite, pytester):
    def git(*words):
        who = ["-c", "user.name=a", "-c", "user.email=a@localhost"]
        subprocess.run(["git", *who, *words], cwd=pytester.path, check=True, capture_output=True)

    pytester.makepyfile(test_reads='NAME = "table.csv"\ndef test_table(): pass\n')
    pytester.path.joinpath("table.csv").write_text("1\n")
    pytester.path.joinpath(".gitignore").write_text("cache\n__pycache__\nrunpytest-*\nstd*\n")
    git("init", "-q")
    suite("def test_it(): pass\n")
    git("add", ".")
    git("commit", "-qm", "first")
    assert suite("def test_it(): pass\n", "--changed")[0] == 4  # nothing has changed
    pytester.path.joinpath("table.csv").write_text("2\n")
    said = suite("def test_it(): pass\n", "--changed")[1]
    assert "1 passed, 1 deselected" in said
    assert said.splitlines()[-1] == "played: what rests on table.csv"
    git("commit", "-qam", "second")
    # A clean tree: what the last commit changed
    assert "1 passed, 1 deselected" in suite("def test_it(): pass\n", "--changed")[1]
    assert suite("def test_it(): pass\n", "--changed", "--all")[0] == 4


def test_a_run_stops_by_its_limit_and_names_what_then_ran(suite, pytester):
    text = "import time\ndef test_quick(): pass\ndef test_endless(): time.sleep(600)\n"
    code, said = suite(text, "--limit", "0.25", "-n", "1")
    assert code == 2, said
    assert "1 passed" in said
    assert said.splitlines()[-2] == "stopped after 0 minutes, as was asked; then ran:"
    assert said.splitlines()[-1].startswith("test_it.py::test_endless (")
    times = json.loads((pytester.path / "cache" / "tests" / "times.json").read_text())
    assert list(times) == ["test_it.py::test_quick"]  # what was cut off has not passed


def test_an_endless_test_ends_with_its_stack(suite):
    text = "import time\ndef test_endless():\n    time.sleep(600)\ndef test_other(): pass\n"
    code, said = suite(text, "--timeout", "1", "--timeout-method", "thread", "-n", "1")
    assert code == 1, said
    assert "test_endless" in said
    assert "1 failed, 1 passed" in said


def test_what_is_kept_is_read_again(suite, pytester):
    suite(LUCKY, "--minutes", "table.md")
    table = pytester.path.joinpath("table.md").read_text()
    assert table.splitlines()[2].startswith("| all | 2 | 0 |")
    assert table.splitlines()[3].startswith("| `test_it.py` | 2 | 0 |")
    kept = json.loads((pytester.path / "cache" / "tests" / "times.json").read_text())
    assert kept["test_it.py::test_sure"][1] is False
