"""./hpml list, check, hint, watch and build as typed in a terminal."""

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path

import nbformat
import pytest

from hpml import cli
from hpml.checks.verdict import ClaimResult, Verdict
from hpml.cli import watch_command
from hpml.course import own_answers, progress, schedule

RIGHT = """\
# %%
# %%answer hello_ranks
import torch
import torch.distributed as dist


def hello(number):
    total = torch.tensor(number)
    dist.all_reduce(total)
    return total.item()
"""
ALONE = "# %%\n# %%answer hello_ranks\ndef hello(number):\n    return number\n"
LIMIT = 300  # seconds; far more than any of these takes


@dataclass(frozen=True)
class Ended:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def hpml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("HPML_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Ended:
        with pytest.raises(SystemExit) as ended:
            cli.main(arguments)
        return Ended(ended.value.code, *capsys.readouterr())

    return run


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def all_exercises() -> list[str]:
    return [entry.id for module in schedule.load().modules for entry in module.exercises]


def test_a_right_answer_is_reported_recorded_and_listed(hpml, tmp_path: Path) -> None:
    for other, points in (("job_script", 6), ("read_queue", 5)):
        claim = ClaimResult("it holds", True, points)
        progress.record(Verdict(other, other, "passed", (claim,), "every claim holds", 1))
    write(tmp_path / "mine.py", RIGHT)
    checked = hpml("check", "mine.py")
    assert checked.returncode == 0, checked.stderr
    assert "✓ hello_ranks" in checked.stdout
    assert "2 of 2 points" in checked.stdout
    assert "Module 00, Your machine, is done: 13 points." in checked.stdout
    following = schedule.load().core[1]
    next_line = f"next: {following.id} (core, {following.minutes} min), in exercises/01_"
    assert f"3 of {len(all_exercises())} done (core 1 of " in checked.stdout
    assert next_line in checked.stdout
    listed = hpml("list").stdout
    (line,) = [line for line in listed.splitlines() if "hello_ranks" in line]
    assert line.split() == ["✓", "hello_ranks", "2", "of", "2", "points", "5", "min,", "core"]
    assert "00  Your machine (before the day, 30 min)" in listed
    core = schedule.load().core
    following = f"next: {core[1].id} ({core[1].minutes} min)."
    assert listed.endswith(f"Core path: 1 of {len(core)} exercises passed, {following}\n")
    assert f"\n13 of {schedule.load().points} points" in listed


def test_a_wrong_answer_fails_and_the_hints_follow_it(hpml, tmp_path: Path) -> None:
    write(tmp_path / "mine.py", ALONE)
    checked = hpml("check", "mine.py", "--seed", "7")
    assert checked.returncode == 1
    assert "./hpml check mine.py --id hello_ranks --seed 7" in checked.stdout
    hints = [hpml("hint", "hello_ranks").stdout for _ in range(5)]
    assert hints[0].startswith("Your number is an int,")
    assert "3 more: ./hpml hint hello_ranks" in hints[0]
    assert hints[1].startswith("The number came back as it went in.")
    assert hints[2].startswith("torch.tensor(number) makes a tensor")
    assert hints[3].startswith("Three lines on every rank")
    assert hints[4].startswith("That was the last one.")


def test_the_courses_answer_comes_after_the_last_hint(hpml) -> None:
    refused = hpml("answer", "hello_ranks")
    assert refused.returncode == 2
    assert refused.stderr.endswith("3 hints are left: ./hpml hint hello_ranks\n")
    for _ in range(3):
        hpml("hint", "hello_ranks")
    shown = hpml("answer", "hello_ranks")
    assert shown.stdout.startswith(
        "The course's own answer to hello_ranks:\n\n%%answer hello_ranks"
    )


def test_a_script_without_a_marker_is_the_answer_as_a_whole(hpml, tmp_path: Path) -> None:
    write(tmp_path / "mine.py", "def hello(n:\n")
    checked = hpml("check", "mine.py", "--id", "hello_ranks")
    assert "mine.py:1 | def hello(n:" in checked.stdout


def test_an_exercise_is_checked_by_its_id_where_it_was_written(
    hpml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "exercises").mkdir()
    stub = "# %%\n# %%answer hello_ranks\ndef hello(n):\n    raise NotImplementedError()\n"
    script = write(tmp_path / "exercises/00_your_machine.py", stub)
    course = replace(schedule.load(), root=tmp_path)
    monkeypatch.setattr(schedule, "load", lambda: course)
    assert own_answers.find(course, "hello_ranks").is_stub
    cell = nbformat.v4.new_code_cell("%%answer hello_ranks\ndef hello(n:\n")
    notebook = script.with_suffix(".ipynb")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), notebook)
    os.utime(notebook, (0, 0))  # the stub was saved later, and is not an answer
    checked = hpml("check", "hello_ranks")
    assert checked.returncode == 1
    assert "not valid Python (00_your_machine.ipynb, cell 1)" in checked.stdout
    write(script, ALONE.replace("return number", "return (number"))
    assert "not valid Python (00_your_machine.py)" in hpml("check", "hello_ranks").stdout
    assert [str(path) for path in own_answers.files(course)] == [
        "exercises/00_your_machine.ipynb",
        "exercises/00_your_machine.py",
    ]
    absent = hpml("check", "ddp")
    assert absent.returncode == 2
    assert "06_torch_distributed.ipynb is missing: name the file" in absent.stderr
    assert "name the exercise once" in hpml("check", "hello_ranks", "--id", "ddp").stderr
    assert "no exercise has the id 'ddpp'" in hpml("check", "ddpp").stderr


def test_without_arguments_what_changed_is_judged_and_a_stub_comes_back_by_its_id(
    hpml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    course = replace(schedule.load(), root=tmp_path)
    for folder in ("exercises", "solutions"):
        (tmp_path / folder).mkdir()
    for name in ("exercises/00_your_machine.py", "solutions/00_your_machine.py"):
        shutil.copy(schedule.load().root / name, tmp_path / name)
    monkeypatch.setattr(schedule, "load", lambda: course)
    judged: list[str] = []

    def judge(exercise: str, source: str, seed: int | None = None) -> Verdict:
        judged.append(exercise)
        return Verdict(exercise, "", "passed", (ClaimResult("it holds", True, 1),), "", 1)

    monkeypatch.setattr("hpml.checks.judge", judge)
    monkeypatch.setattr("hpml.checks.beside_library.beside_library", lambda *_: [])
    script = tmp_path / "exercises/00_your_machine.py"
    unwritten = hpml("check")
    assert unwritten.returncode == 0
    assert unwritten.stdout.startswith("No answer that is written has changed since it was last")
    stub = script.read_text()
    parts = stub.split("raise NotImplementedError()")
    script.write_text("1".join(parts))
    assert hpml("check").returncode == 0
    assert judged == ["hello_ranks", "job_script", "read_queue"]
    assert "No answer" in hpml("check").stdout
    script.write_text("2".join(["1".join(parts[:2]), *parts[2:]]))
    hpml("check")
    assert set(judged[3:]) == {"job_script", "read_queue"}
    assert json.loads(hpml("check", "--json").stdout) == []
    hpml("check", "--id", "read_queue")
    assert judged[5:] == ["read_queue"]
    restored = hpml("restore", "hello_ranks").stdout
    assert restored == (
        "hello_ranks is as it was handed out in exercises/00_your_machine.py; yours is "
        "exercises/hello_ranks.mine-1.py\n"
    )
    assert script.read_text() == "2".join(
        ["raise NotImplementedError()".join(parts[:2]), *parts[2:]]
    )


def test_verdicts_as_json(hpml, tmp_path: Path) -> None:
    loud = ALONE.replace("    return number", "    print('here')\n    return number")
    write(tmp_path / "mine.py", loud)
    checked = hpml("check", "mine.py", "--json", "--seed", "7")
    (verdict,) = json.loads(checked.stdout)
    assert checked.returncode == 1
    assert (verdict["status"], verdict["seed"], verdict["earned"]) == ("failed", 7, 0)
    assert verdict["where"] == "mine.py, line 2"
    assert (verdict["printed"], verdict["shown_at"]) == ("[0-1] here", 2)
    assert "timeline" not in verdict


def test_what_cannot_be_judged_is_reported_in_one_line(hpml, tmp_path: Path) -> None:
    write(tmp_path / "broken.py", "# %%\n# %%answer hello_ranks\n\ndef hello(n):\n  return (1\n")
    checked = hpml("check", "broken.py")
    assert checked.returncode == 1
    assert checked.stdout.splitlines() == [
        "✗ hello_ranks: not valid Python (broken.py)",
        "broken.py:5 | return (1",
        "                     ^",
        "SyntaxError: '(' was never closed",
    ]
    write(tmp_path / "other.py", "# %%\n# %%answer hello_rank\n")
    for arguments, message in (
        (["other.py"], "other.py, line 2: no exercise has the id 'hello_rank'"),
        (["gone.py"], "gone.py: no such file"),
        (["broken.py", "--id", "nothing"], "no exercise has the id 'nothing'"),
        (["broken.py", "--id", "ddp"], "broken.py: no cell starts with %%answer ddp"),
    ):
        refused = hpml("check", *arguments)
        assert refused.returncode == 2
        assert message in refused.stderr
        assert refused.stderr.count("\n") == 1


def test_stubs_beside_an_answer_take_one_line_each(hpml, tmp_path: Path) -> None:
    stub = "# %%\n# %%answer ddp\ndef x():\n    # YOUR CODE HERE\n    raise NotImplementedError()\n"
    write(tmp_path / "mine.py", f"{RIGHT}\n{stub}")
    checked = hpml("check", "mine.py")
    assert checked.returncode == 1
    assert "✓ hello_ranks" in checked.stdout
    assert "· ddp: not written yet (mine.py, line 13)" in checked.stdout.splitlines()


@pytest.mark.measures
def test_watching_checks_what_was_saved_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.py", ALONE)
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "hpml", "watch", "mine.py"],
        env={**os.environ, "HPML_HOME": str(tmp_path / "home")},
        cwd=tmp_path,
        text=True,
        stdout=subprocess.PIPE,
    )
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=lambda: [lines.put(x) for x in process.stdout], daemon=True).start()

    def wait_for(text: str) -> None:
        deadline, seen = time.monotonic() + LIMIT, []
        while time.monotonic() < deadline:
            try:
                seen.append(lines.get(timeout=1))
            except queue.Empty:
                continue
            if text in seen[-1]:
                return
        pytest.fail(f"{text!r} did not come, but {''.join(seen)}")

    try:
        wait_for("✗ hello_ranks")
        wait_for("Waiting for mine.py")
        time.sleep(1)  # the watch begins after the line that announces it
        path.write_text(ALONE.replace("return number", "return (number"))
        wait_for("not valid Python (mine.py)")
        wait_for("mine.py:4 | return (number")
        wait_for("Waiting for mine.py")
        write(tmp_path / "new", RIGHT).replace(path)  # as editors do
        wait_for("✓ hello_ranks")
        wait_for("Waiting for mine.py")
        process.send_signal(signal.SIGINT)
        wait_for("No longer watching.")
        assert process.wait(timeout=LIMIT) == 0
    finally:
        process.kill()
        process.wait()


def test_a_watch_without_a_file_is_of_all_exercises() -> None:
    only, paths = watch_command._watched(schedule.load(), ())
    names = {path.name for path in paths}
    assert not only
    assert {"00_your_machine.ipynb", "00_your_machine.py"} < names
    assert len(names) == 2 * len(schedule.load().modules)
    only, paths = watch_command._watched(schedule.load(), [Path("ddp")])
    assert only == {"ddp"}
    assert sorted(path.suffix for path in paths) == [".ipynb", ".py"]


def test_build_check_names_files_and_fails_with_its_exit_code(hpml) -> None:
    unknown = hpml("build", "--check", "99")
    assert unknown.returncode == 2
    assert "no module '99'" in unknown.stderr


def test_course_check_proves_one_exercise(hpml) -> None:
    proved = hpml("course", "check", "hello_ranks", "--json")
    rows = json.loads(proved.stdout)["rows"]
    assert [row["part"] for row in rows][:3] == ["check", "stub", "solution"]
    assert all(row["good"] for row in rows), [row for row in rows if not row["good"]]
    assert proved.returncode == 0
