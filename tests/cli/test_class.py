"""./hpml class: where a class is, in a terminal, in a file and at an address of this machine."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
import urllib.request
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from hpml import cli
from hpml.course.class_record import ENDING

LIMIT = 60  # seconds


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    folder = tmp_path / "shared"
    folder.mkdir()
    check(folder, "aaaa0001", "[red]Ada\x1b[2J", 14)
    return folder


def check(folder: Path, learner: str, name: str, ago: int) -> None:
    """A learner has failed a claim of ddp, so many minutes ago."""
    at = (datetime.now(timezone.utc) - timedelta(minutes=ago)).isoformat()
    row = {"at": at, "exercise": "ddp", "status": "failed", "cause": "claims", "holds": 1}
    row |= {"claims": 9, "earned": 2, "points": 20, "hint": "raised", "name": name}
    row["claim"] = "every rank starts from rank 0's parameters"
    (folder / f"{learner}-00000001{ENDING}").write_text(json.dumps(row) + "\n")


def ended(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        cli.main(["class", *arguments])
    return end.value.code


def test_in_a_pipe_it_looks_once(shared, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert ended(str(shared)) == 0
    out = capsys.readouterr().out
    for words in (
        "1 learner, 1 at work. By the clock",
        "1 ddp: every rank starts from rank 0's parameters",
        "say: ",
        "14 min  [red]Ada\N{REPLACEMENT CHARACTER}[2J  ddp: every rank",
        "Not marks",
    ):
        assert words in out
    assert "\x1b" not in out
    assert re.search(r"^\d\d:\d\d +zero1 ", out, re.MULTILINE)


def test_without_a_folder_it_takes_the_one_of_hpml_class(shared, capsys, monkeypatch):
    monkeypatch.setenv("HPML_CLASS", str(shared))
    assert ended("--once") == 0
    assert "1 learner" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["{}/none"], "none: No such file or directory: name the folder that HPML_CLASS names"),
        (["{}", "--port", "8000"], "--port 8000 is for --serve"),
        (["{}", "--once", "--serve"], "--once --serve: a page is served until Ctrl-C"),
        (["{}", "--once", "--html", "{}/none/x.html"], "--html .*none/x.html: No such file"),
        ([], "FOLDER.*: ./hpml class --help says more"),
    ],
)
def test_what_is_wrong_is_one_line(arguments, complaint, shared, capsys, monkeypatch):
    monkeypatch.delenv("HPML_CLASS", raising=False)
    assert ended(*(each.format(shared) for each in arguments)) == 2
    err = capsys.readouterr().err
    assert re.search(complaint, err)
    assert len(err.splitlines()) == 1


def test_a_page_is_written_once_where_that_is_wanted(shared, tmp_path, capsys):
    page = tmp_path / "class.html"
    assert ended(str(shared), "--once", "--html", str(page)) == 0
    assert "every rank starts from rank 0" in page.read_text()
    assert str(page) in capsys.readouterr().out.replace("\n", "")


def test_page_and_address_are_renewed_until_ctrl_c_even_if_the_folder_goes_away_for_a_while(
    shared, tmp_path
):
    page = tmp_path / "class.html"
    code = "from hpml.cli.instructors import class_command as c; c.EVERY = 0.2; "
    code += f"from hpml.cli import main; main(['class', {str(shared)!r}, '--serve', '--html', "
    code += f"{str(page)!r}])"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        address = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())[0]

        def shown(words: str) -> None:
            deadline = time.monotonic() + LIMIT
            while time.monotonic() < deadline:
                with urllib.request.urlopen(address, timeout=10) as answer:
                    served = answer.read().decode()
                if words in served and words in page.read_text():
                    return
                time.sleep(0.1)
            raise AssertionError(f"{words} is not shown")

        shown("1 learner,")
        check(shared, "bbbb0001", "Bob", 1)
        shown("2 learners,")
        shared.rename(tmp_path / "away")
        shown("This is how it was")
        (tmp_path / "away").rename(shared)
        check(shared, "cccc0001", "Cem", 1)
        shown("3 learners,")
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT) == 0
    finally:
        process.kill()
        process.wait(LIMIT)


def test_in_a_terminal_it_looks_again_until_ctrl_c_and_leaves_the_screen_as_it_was(shared):
    code = "from hpml.cli.instructors import class_command as c; c.EVERY = 0.2; "
    code += f"from hpml.cli import main; main(['class', {str(shared)!r}])"
    ours, its = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "150", "LINES": "50"},
    )
    os.close(its)
    seen = b""

    def until(words: bytes) -> None:
        nonlocal seen
        os.set_blocking(ours, False)
        deadline = time.monotonic() + LIMIT
        while words not in seen and time.monotonic() < deadline:
            try:
                seen += os.read(ours, 1 << 16)
            except BlockingIOError:
                time.sleep(0.05)
            except OSError:  # its end is closed
                break
        assert words in seen, seen[-2000:]

    try:
        until(b"1 learner,")
        check(shared, "bbbb0001", "Bob", 1)
        until(b"2 learners,")
        process.send_signal(signal.SIGINT)
        until(b"\x1b[?1049l")  # the other screen's end
        assert process.wait(LIMIT) == 0
    finally:
        process.kill()
        process.wait(LIMIT)
        os.close(ours)
