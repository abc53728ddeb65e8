"""How long a learner waits in a terminal: each command a process of its own, cold and warm.

Cold is without the server that `hpml.cli.hand_over` describes; the first check starts it. Warm is
with it, once it is at rest.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from hpml.errors import UserError

EXERCISE = "hello_ranks"  # of one launch for each number of ranks
LIMIT = 120.0  # seconds
AT_REST = 0.5  # seconds without work after which a server is at rest
LIST, HINT, SYNTAX = "./hpml list", "./hpml hint", "./hpml check, a syntax error"
FIRST_LINE = "./hpml check, cold: its first line"
COLD, WARM = "./hpml check, cold", "./hpml check, warm"
WATCH = "./hpml watch: from saving to the verdict"
TARGETS = {
    LIST: "under 0.5 s",
    HINT: "under 0.5 s",
    SYNTAX: "under 0.5 s",
    FIRST_LINE: "under 0.3 s",
    COLD: "under 3 s",
    WARM: "under 0.5 s",
    WATCH: "under 0.5 s",
}


def waits(source: str) -> list[tuple[str, float]]:
    """Seconds of each of TARGETS, with `source` as the right answer to EXERCISE.

    Raises UserError where a command ends otherwise than it should.
    """
    with tempfile.TemporaryDirectory(prefix="hpml-bench-") as scratch:
        folder = Path(scratch)  # its end is the server's end, which looks whether it is there
        right, broken = folder / "right.py", folder / "broken.py"
        right.write_text(_script(source))
        broken.write_text(_script(f"{source}\n)\n"))
        taken = [
            (LIST, _seconds(folder, 0, "list")),
            (HINT, _seconds(folder, 0, "hint", EXERCISE)),
            (SYNTAX, _seconds(folder, 1, "check", broken.name)),
        ]
        started = time.perf_counter()
        with _running(folder, "check", right.name) as process:
            process.stderr.readline()
            taken.append((FIRST_LINE, time.perf_counter() - started))
            _ended(process, 0)
            taken.append((COLD, time.perf_counter() - started))
        _wait_for_rest(folder)
        taken.append((WARM, _seconds(folder, 0, "check", right.name)))
        taken.append((WATCH, _watch(folder, right)))
    return taken


def _script(source: str) -> str:
    """An answer cell as a percent script."""
    magic, _, rest = source.partition("\n")
    return f"# %%\n# {magic.removeprefix('# ')}\n{rest}"


def _seconds(folder: Path, code: int, *arguments: str) -> float:
    started = time.perf_counter()
    with _running(folder, *arguments) as process:
        _ended(process, code)
    return time.perf_counter() - started


def _watch(folder: Path, file: Path) -> float:
    """From saving a file that is watched to the first line of its verdict."""
    with _running(folder, "watch", file.name) as process:
        _wait_for_line(process, "Waiting for")
        time.sleep(1.0)  # the watch begins after that line
        file.write_text(file.read_text() + "# saved again\n")
        started = time.perf_counter()
        _wait_for_line(process, EXERCISE)
        return time.perf_counter() - started


@contextlib.contextmanager
def _running(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    settings = {"HPML_HOME": str(folder / "home"), "HPML_SERVER": "on"}
    process = subprocess.Popen(
        [sys.executable, "-m", "hpml", *arguments],
        cwd=folder,
        env={**os.environ, **settings},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        with process:
            yield process
            process.terminate()
    finally:
        process.kill()


def _ended(process: subprocess.Popen[str], code: int) -> None:
    said = process.communicate(timeout=LIMIT)
    if process.returncode != code:
        words: Any = process.args  # a list, as it was given
        command = " ".join(words[3:])
        raise UserError(f"bench check: ./hpml {command} ended with {process.returncode}: {said}")


def _wait_for_line(process: subprocess.Popen[str], words: str) -> None:
    for line in process.stdout:
        if words in line:
            return
    raise UserError(f"bench check: ./hpml watch did not print {words!r}")


def _wait_for_rest(folder: Path) -> None:
    """Wait until the server has imported the other checks, which it does when nothing is asked."""
    (lock,) = (folder / "home" / "servers").glob("*.lock")
    server = psutil.Process(int(lock.read_text()))
    deadline = time.monotonic() + LIMIT
    before, now = None, server.cpu_times()
    while before != now and time.monotonic() < deadline:
        time.sleep(AT_REST)
        before, now = now, server.cpu_times()
