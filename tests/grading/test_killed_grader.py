"""A grader that is killed in the middle of a submission leaves no process behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import psutil
import pytest

ASLEEP = "hpml-asleep"  # what the answer's processes call themselves
START = 240.0  # seconds until answers run; on an idle machine it takes four
END = 12.0  # seconds until all are gone; less than the 20 after which an answer is ended anyway

GRADER = f'''
import sys
from pathlib import Path
from hpml.answer import Answer
from hpml.course import schedule
from hpml.grading import batch
from hpml.grading.judging import Judge
from hpml.grading.submission import Submission

SOURCE = """%%answer hello_ranks
import ctypes, os, time
def hello(number):
    ctypes.CDLL(None).prctl(15, b"{ASLEEP}")
    if os.fork() == 0:
        os.setsid()
    time.sleep(1000)
"""

class Listener:
    def started(self, *_): ...
    def graded(self, *_): ...

def submission(person):
    return Submission(person, answers={{
        "hello_ranks": Answer("hello_ranks", SOURCE, Path("a.ipynb"), 1, None)}})

if __name__ == "__main__":
    judge = Judge(schedule.load(), ("hello_ranks",))
    batch.grade([submission("ada"), submission("bo")], judge, Path(sys.argv[1]), Listener(), jobs=2)
'''


def until(happened: Callable[[], bool], limit: float) -> bool:
    deadline = time.monotonic() + limit
    while not happened() and time.monotonic() < deadline:
        time.sleep(0.05)
    return happened()


def runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.usefixtures("sandboxed")
def test_workers_sandboxes_and_ranks_end_with_the_grader(tmp_path):
    program = tmp_path / "grader.py"
    program.write_text(GRADER)
    grader = subprocess.Popen([sys.executable, str(program), str(tmp_path / "out")])
    family: dict[int, psutil.Process] = {}

    def both_are_judged() -> bool:
        assert grader.poll() is None, "the grader ended by itself"
        for process in psutil.Process(grader.pid).children(recursive=True):
            family[process.pid] = process
        names = []
        for process in family.values():
            try:
                names.append(process.name())
            except psutil.NoSuchProcess:
                continue
        return names.count(ASLEEP) >= 4  # one rank each, and what it forked

    try:
        assert until(both_are_judged, START)
    finally:
        os.kill(grader.pid, signal.SIGKILL)
        grader.wait(END)
    try:
        assert until(lambda: not any(map(runs, family.values())), END), [
            process for process in family.values() if runs(process)
        ]
    finally:
        for process in filter(runs, family.values()):
            process.kill()
