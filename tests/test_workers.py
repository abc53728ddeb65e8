"""What the tests ask of pytest-xdist: groups that share a worker, and the longest first."""

import os
import subprocess
import sys

from hpml.cli.instructors.test_command import DISTRIBUTION
from hpml.paths import CHECKOUT

ORDER = (CHECKOUT / "tests" / "suite" / "order.py").read_text()


def test_tests_of_one_group_share_a_worker(tmp_path):
    """pytest-xdist 3.8 has no effect on this with pytest 9.2, and says nothing."""
    for name in "abcdefgh":
        (tmp_path / f"test_{name}.py").write_text(
            "import os, pathlib, pytest\n"
            "@pytest.mark.xdist_group('one')\n"
            "def test_it():\n"
            f"    pathlib.Path({str(tmp_path)!r}, '{name}').write_text(\n"
            "        os.environ['PYTEST_XDIST_WORKER'])\n"
        )
    ended = run("-n", "2", str(tmp_path))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert len({(tmp_path / name).read_text() for name in "abcdefgh"}) == 1


def order(**times: float) -> str:
    """A conftest.py that orders tests of test_it.py by these seconds."""
    known = {f"test_it.py::{name}": (seconds, False) for name, seconds in times.items()}
    return f"{ORDER}\n\ndef pytest_configure(config):\n    " + (
        f"config.pluginmanager.register(Order({known!r}))\n"
    )


def test_tests_that_share_a_fixture_of_their_file_share_a_worker(tmp_path):
    (tmp_path / "conftest.py").write_text(order())
    (tmp_path / "test_it.py").write_text(
        "import os, pytest\n"
        "@pytest.fixture(scope='module')\n"
        "def made():\n"
        f"    with open({str(tmp_path / 'made')!r}, 'a') as file:\n"
        "        print('once', file=file)\n"
        "@pytest.mark.parametrize('number', range(8))\n"
        "def test_it(made, number): pass\n"
    )
    ended = run("-n", "2", str(tmp_path))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert (tmp_path / "made").read_text() == "once\n"


def test_the_longest_begin_first_and_a_group_counts_as_one(tmp_path):
    (tmp_path / "conftest.py").write_text(order(test_a=2, test_b=3, test_c=2.5, test_d=9))
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "def noted(name):\n"
        f"    with open({str(tmp_path / 'order')!r}, 'a') as file:\n"
        "        print(name, file=file)\n"
        "@pytest.mark.xdist_group('both')\n"
        "def test_a(): noted('a')\n"
        "def test_b(): noted('b')\n"
        "@pytest.mark.xdist_group('both')\n"
        "def test_c(): noted('c')\n"
        "def test_d(): noted('d')\n"
        "def test_new(): noted('new')\n"
    )
    ended = run("-n", "1", str(tmp_path))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert (tmp_path / "order").read_text().split() == ["d", "a", "c", "b", "new"]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", *DISTRIBUTION]
    return subprocess.run(
        [*command, "-p", "xdist", "-p", "no:cacheprovider", "-c", "/dev/null", *words],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
