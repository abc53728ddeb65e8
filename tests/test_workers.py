"""What the tests ask of pytest-xdist: groups that share a worker, and the longest first."""

import importlib.util
import os
import subprocess
import sys

import pytest

from hpml.cli.test_command import DISTRIBUTION
from hpml.paths import CHECKOUT

CONFTEST = CHECKOUT / "tests" / "conftest.py"


@pytest.fixture
def first() -> tuple[str, ...]:
    """The groups and files that begin first."""
    spec = importlib.util.spec_from_file_location("conftest_of_all", CONFTEST)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.FIRST


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


def test_tests_that_share_a_fixture_of_their_file_share_a_worker(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text())
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


def test_the_longest_begin_first_wherever_they_are_collected(tmp_path, first):
    order = tmp_path / "order"
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text())
    (tmp_path / "test_all.py").write_text(
        "import pytest\n"
        "from pathlib import Path\n"
        f"names = ['neither', *{first[::-1]!r}]\n"
        "marks = [pytest.mark.xdist_group(name) for name in names]\n"
        "params = [pytest.param(n, marks=m) for n, m in zip(names, marks)]\n"
        "@pytest.mark.parametrize('name', params)\n"
        "def test_it(name):\n"
        f"    with open({str(order)!r}, 'a') as file:\n"
        "        print(name, file=file)\n"
    )
    ended = run("-n", "1", str(tmp_path))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert order.read_text().split() == [*first, "neither"]


def test_what_begins_first_is_there(first):
    sources = [path.read_text() for path in (CHECKOUT / "tests").rglob("*.py")]
    for name in first:
        group = f'xdist_group("{name}")'
        assert (CHECKOUT / name).exists() or any(group in source for source in sources), name


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", *DISTRIBUTION]
    return subprocess.run(
        [*command, "-p", "xdist", "-p", "no:cacheprovider", "-c", "/dev/null", *words],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
