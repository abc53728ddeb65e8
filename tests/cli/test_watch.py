"""The keys of ./hpml watch, in a terminal whose settings are afterwards what they were."""

import fcntl
import os
import pty
import select
import subprocess
import sys
import termios
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpml.cli import keys
from hpml.course import schedule

from ..waiting import until

# A course in the folder that it is started in; judging it is not what is tested
WATCH = """
import sys
from dataclasses import replace
from pathlib import Path
from hpml import cli
from hpml.cli import watch_command
from hpml.checks.verdict import ClaimResult, Verdict
from hpml.course import schedule
course = replace(schedule.load(), root=Path.cwd())
schedule.load = lambda: course
def judged(answers, keep):
    for a in answers:
        claim = ClaimResult("reads aloud", False, 3, "it says 1 (line 2 of your answer)", "Why?")
        keep(a, Verdict(a.exercise, "", "failed", (claim,), "", 1, lines=((2, "say(1)"),)))
    print("judged", *(a.exercise for a in answers))
watch_command.check_and_report = judged
cli.main(["watch", *sys.argv[1:]])
"""
NAME = "exercises/00_your_machine.py"
LEFT = "1-9 that claim in full, h hint, n next of this module, r this stub again, q quit"


@dataclass
class Terminal:
    """A watch that has a terminal of its own, and what came out of it so far."""

    process: subprocess.Popen[bytes]
    ours: int
    theirs: int
    before: list[object]
    seen: str = ""

    def wait_for(self, text: str) -> str:
        """Wait until it is shown; returns what was shown before it."""

        def there() -> bool:
            while select.select([self.ours], [], [], 0)[0]:
                self.seen += os.read(self.ours, 65536).decode()
            return text in self.seen

        until(there, repr(text))
        before, _, self.seen = self.seen.partition(text)
        return before

    def press(self, key: str) -> None:
        os.write(self.ours, key.encode())

    def ends(self) -> None:
        self.wait_for("No longer watching.")
        assert self.process.wait(timeout=60) == 0
        assert termios.tcgetattr(self.theirs) == self.before


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Terminal]:
    for name in (NAME, NAME.replace("exercises", "solutions")):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes((schedule.load().root / name).read_bytes())
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", WATCH, "hello_ranks"],
        cwd=tmp_path,
        env={**os.environ, "HPML_HOME": str(tmp_path / "home")},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    yield Terminal(process, ours, theirs, before)
    process.kill()
    process.wait()
    os.close(ours)
    os.close(theirs)


def test_keys_give_a_hint_the_next_exercise_and_a_stub_and_end_the_watch(
    watch: Terminal, tmp_path: Path
) -> None:
    script = tmp_path / NAME
    stub = script.read_text()
    watch.wait_for("judged hello_ranks")
    watch.wait_for(f"Waiting for 00_your_machine.py to be saved; keys: {LEFT}.")
    watch.press("x\x1bOr\x1b[1~h")  # none of a key that sends several characters
    assert "handed out" not in watch.wait_for("Your number is an int,")
    watch.wait_for("2 more: h\r\n")
    watch.wait_for(LEFT)
    watch.press("1")
    watch.wait_for("Claim 1 of 1 fails, 0 of 3 points:\r\n  reads aloud\r\n")
    shown = watch.wait_for("hint: Why?")
    assert "00_your_machine.py:" in shown
    assert "| say(1)" in shown
    watch.press("20")  # 0 is none
    watch.wait_for("✗ hello_ranks has no claim 2: press 1 to 1")
    watch.wait_for(LEFT)
    watch.press("n")
    watch.wait_for("next: job_script (more, 20 min), in 00_your_machine.py, line ")
    watch.wait_for(LEFT)
    watch.press("1")
    watch.wait_for("✗ job_script has no verdict here yet: save your answer")
    watch.wait_for(LEFT)
    parts = stub.split("raise NotImplementedError()")
    mine = parts[0] + "raise NotImplementedError()" + "1".join(parts[1:])
    script.write_text(mine)
    watch.wait_for("judged job_script\r\n")
    watch.wait_for(LEFT)
    watch.press("r")
    watch.wait_for("job_script is as it was handed out in exercises/00_your_machine.py; yours is ")
    watch.wait_for(LEFT)
    assert "def " in (tmp_path / "exercises/job_script.mine-1.py").read_text()
    assert script.read_text() == "raise NotImplementedError()".join(parts[:3]) + "1" + parts[3]
    script.write_text(
        script.read_text().replace("raise NotImpl", "return number; raise NotImpl", 1)
    )
    # What a key has put back is not judged
    assert "judged" not in watch.wait_for("judged hello_ranks\r\n")
    watch.press("q")
    watch.ends()


def test_ctrl_c_ends_a_watch_and_the_terminal_is_as_before(watch: Terminal) -> None:
    watch.wait_for(LEFT)
    # Ctrl-Z would leave two readers of one terminal
    assert termios.tcgetattr(watch.theirs)[6][termios.VSUSP] == b"\0"
    watch.press("\x03")
    watch.ends()


def test_a_watch_in_the_background_takes_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    monkeypatch.setattr(os, "tcgetpgrp", lambda fd: os.getpgrp() + 1)
    with keys.single(theirs) as has_keys:
        assert not has_keys
        assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)
