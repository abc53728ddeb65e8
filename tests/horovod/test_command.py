"""A program is run to its end or its limit, and nothing of it stays."""

import sys

import pytest

from hpml.horovod import command

from ..waiting import gone


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log"


def test_status_and_lines_and_log(log):
    lines = []
    status = command.run(
        ["sh", "-c", "echo one; echo two >&2; printf three; exit 7"],
        limit=60,
        log=log,
        on_line=lines.append,
    )
    assert status == 7
    assert [line for line in lines if line] == ["one", "two", "three"]
    assert (
        log.read_text() == "$ sh -c echo one; echo two >&2; printf three; exit 7\none\ntwo\nthree\n"
    )


def test_folder_and_environment_are_its_own(log, tmp_path):
    lines = []
    command.run(
        ["/bin/sh", "-c", "pwd; echo $A"],
        limit=60,
        log=log,
        environment={"A": "b"},
        folder=tmp_path,
        on_line=lines.append,
    )
    assert [line for line in lines if line] == [str(tmp_path), "b"]


# A child that went into a session of its own, which is not in our group, and does not hear SIGTERM
STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if sys.argv[1] == "parent":
    child = subprocess.Popen([sys.executable, __file__, "child"], start_new_session=True)
    print(os.getpid(), child.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def stubborn(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "PATIENCE", 0.2)
    script = tmp_path / "stubborn.py"
    script.write_text(STUBBORN)
    return [sys.executable, script, "parent"]


def test_after_the_limit_nothing_of_it_stays(log, stubborn):
    lines = []
    with pytest.raises(TimeoutError, match="no end after 2 s"):
        command.run(stubborn, limit=2, log=log, on_line=lines.append)
    (pids,) = filter(None, lines)
    assert all(gone(int(pid)) for pid in pids.split())
    assert log.read_text().endswith("no end after 2 s\n")


def test_after_an_interrupt_nothing_of_it_stays(log, stubborn):
    pids = []

    def interrupt(line: str) -> None:
        if line:
            pids.extend(line.split())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        command.run(stubborn, limit=60, log=log, on_line=interrupt)
    assert len(pids) == 2
    assert all(gone(int(pid)) for pid in pids)


def test_what_a_program_leaves_behind_in_its_group_is_ended_and_not_waited_for(log):
    lines = []
    program = ["sh", "-c", "sleep 60 & echo $!"]
    assert command.run(program, limit=30, log=log, on_line=lines.append) == 0
    (pid,) = filter(None, lines)
    assert gone(int(pid))


def test_a_program_that_is_not_there_is_an_os_error(log, tmp_path):
    with pytest.raises(OSError, match="No such file"):
        command.run([tmp_path / "none"], limit=1, log=log)
