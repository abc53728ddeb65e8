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


def test_the_work_of_a_crashed_worker_goes_on_and_nothing_crashes_twice(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_some=TESTS)
    options = ("-p", "xdist", "-n", "2", "--dist", "loadgroup", "--no-loadscope-reorder")
    ran = pytester.runpytest_subprocess(*options, timeout=120)
    ran.assert_outcomes(passed=9, failed=1)
    assert (pytester.path / "crashes").read_text() == "x"
