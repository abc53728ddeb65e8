"""What the tests ask of pytest-xdist."""

import subprocess
import sys


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
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup"]
    ended = subprocess.run(
        [*command, "-p", "no:cacheprovider", "-c", "/dev/null", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert len({(tmp_path / name).read_text() for name in "abcdefgh"}) == 1
