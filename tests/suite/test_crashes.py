"""Where a worker crashes, the next one takes its place, and the test that did it fails once."""

from hpml.paths import CHECKOUT

pytest_plugins = ["pytester"]

CONFTEST = """
from tests.suite.crashes import Crashes

def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Crashes())
"""

TESTS = """
import os, time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
OTHERS = range(8)

def test_that_crashes():
    with open(HERE / "crashes", "a") as file:
        file.write("x")
    os._exit(1)

def test_that_waits_for_the_others():  # but for two that its own worker has been given
    until = time.monotonic() + 20
    while len(list(HERE.glob("other-*"))) < len(OTHERS) - 2:
        assert time.monotonic() < until
        time.sleep(0.05)

@pytest.mark.parametrize("number", OTHERS)
def test_other(number):
    time.sleep(0.1)
    (HERE / f"other-{number}").touch()
"""


TWO = """
import os, time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
# The first of the two new workers is ready for tests while the second one still collects them
time.sleep({"gw2": 1, "gw3": 3}.get(os.environ.get("PYTEST_XDIST_WORKER"), 0))

@pytest.mark.parametrize("number", range(2))
def test_that_crashes_beside_another(number):
    (HERE / f"here-{number}").touch()
    until = time.monotonic() + 20
    while len(list(HERE.glob("here-*"))) < 2:
        assert time.monotonic() < until
        time.sleep(0.01)
    os._exit(1)

@pytest.mark.parametrize("number", range(8))
def test_other(number):
    pass
"""


def test_the_work_of_a_crashed_worker_goes_on_and_nothing_crashes_twice(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
    ran = run(pytester, TESTS)
    ran.assert_outcomes(passed=9, failed=1)
    assert (pytester.path / "crashes").read_text() == "x"


def test_where_two_workers_crash_at_once_the_run_goes_on_and_names_both(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
    ran = run(pytester, TWO)
    ran.assert_outcomes(passed=8, failed=2)
    assert "INTERNALERROR" not in ran.stdout.str()


def run(pytester, tests: str):
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_some=tests)
    options = ("-p", "xdist", "-n", "2", "--dist", "loadgroup", "--no-loadscope-reorder")
    return pytester.runpytest_subprocess(*options, timeout=120)
