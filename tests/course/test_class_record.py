"""What a check leaves in the folder of a class: one line, nothing of code, and no trouble."""

import json
import multiprocessing
import os
import time
from pathlib import Path

import msgspec
import pytest

from hpml.checks.verdict import Cause, ClaimResult, Status, Verdict
from hpml.course import class_record, progress

CODE = "x = secret_of_mine"


@pytest.fixture(autouse=True)
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "shared"
    folder.mkdir()
    monkeypatch.setenv("HPML_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HPML_CLASS", str(folder))
    monkeypatch.delenv("HPML_NAME", raising=False)
    return folder


def verdict(status: Status = "failed", cause: Cause = "claims") -> Verdict:
    claims = (
        ClaimResult("it runs", True, 2),
        ClaimResult("gradients are averaged", False, 3, CODE, CODE, "weights"),
        ClaimResult("it ends", False, 1, CODE, reached=False),
    )
    shown = claims[:1] if status == "passed" else claims
    return Verdict(
        "ring", "Ring", status, shown, CODE, 7, {"rank 1": CODE}, cause, printed=CODE, calls=CODE
    )


def lines(folder: Path) -> list[dict[str, object]]:
    texts = [line for file in folder.iterdir() for line in file.read_text().splitlines() if line]
    return [json.loads(text) for text in texts]


def test_without_the_variable_nothing_is_written(shared, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("HPML_CLASS", "")
    progress.record(verdict(), CODE)
    monkeypatch.delenv("HPML_CLASS")
    progress.record(verdict(), CODE)
    assert list(shared.iterdir()) == []
    assert not (tmp_path / "home/class").exists()
    assert capsys.readouterr().err == ""


def test_each_check_is_one_line_of_what_held_and_what_did_not(shared):
    progress.record(verdict(), CODE)
    progress.next_hint("ring", {"start": "s", "weights": "w"})
    progress.record(verdict(), CODE)
    progress.record(verdict("passed"), CODE)
    first, second, third = lines(shared)
    decoded = msgspec.json.decode(json.dumps(first), type=class_record.Line)
    assert abs(time.time() - decoded.at.timestamp()) < 60
    assert {key: value for key, value in first.items() if key != "at"} == {
        "exercise": "ring",
        "status": "failed",
        "cause": "claims",
        "holds": 1,
        "claims": 3,
        "earned": 2,
        "points": 6,
        "claim": "gradients are averaged",
        "hint": "weights",
    }
    assert second["hints"] == 1
    assert (third["status"], third.get("claim"), third.get("hint")) == ("passed", None, None)


def test_a_line_has_nothing_of_the_code_and_no_name_that_was_not_given(shared, monkeypatch):
    monkeypatch.setenv("USER", "ada-lovelace")
    for cause in ("claims", "raised", "hang"):
        progress.record(verdict("failed", cause), CODE)
    progress.record(verdict("not gradable"), CODE)
    (file,) = shared.iterdir()
    text = file.name + file.read_text()
    assert "secret" not in text
    assert progress.fingerprint(CODE) not in text
    assert "lovelace" not in text
    assert "raised" in text
    monkeypatch.setenv("HPML_NAME", "seat 12\n\x1b[2J" + "x" * 100)
    progress.record(verdict(), CODE)
    assert lines(shared)[-1]["name"] == "seat 12 \N{REPLACEMENT CHARACTER}[2Jxxxxxxxxxxx…"


def test_a_launch_that_failed_has_its_cause_and_no_claim(shared):
    progress.record(verdict("failed", "hang"), CODE)
    (line,) = lines(shared)
    assert (line["cause"], line.get("claim"), line["hint"]) == ("hang", None, "weights")


def test_it_is_reported_once_that_it_records_and_how_to_stop_it(shared, capsys, monkeypatch):
    progress.record(verdict(), CODE)
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    for words in (str(shared), "never a mark", "no code", "unset HPML_CLASS", "no name"):
        assert words in err
    progress.record(verdict(), CODE)
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("HPML_NAME", "Ada")  # that is new, and so reported
    progress.record(verdict(), CODE)
    assert "the name Ada" in capsys.readouterr().err


def check_goes_on(capsys: pytest.CaptureFixture[str], fault: str) -> None:
    """The fault is one line, once; what the learner has done is kept."""
    progress.record(verdict("passed"), CODE)
    err = capsys.readouterr().err
    assert fault in err
    assert len(err.splitlines()) == 1
    assert "unset HPML_CLASS" in err
    progress.record(verdict("passed"), CODE)
    assert capsys.readouterr().err == ""
    assert progress.read()["ring"]["passed"]


@pytest.mark.parametrize(
    ("folder", "fault"),
    [
        ("{}/none", "No such file or directory"),
        ("{}/file", "Not a directory"),
        ("relative", "the whole path is needed"),
        ("~nobody-of-that-name/x", "the whole path is needed"),
    ],
)
def test_a_folder_that_cannot_be_written_costs_one_line(
    folder, fault, tmp_path, monkeypatch, capsys
):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HPML_CLASS", folder.format(tmp_path))
    check_goes_on(capsys, fault)


def test_once_the_folder_is_there_again_it_is_reported_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HPML_CLASS", str(tmp_path / "late"))
    check_goes_on(capsys, "No such file")
    (tmp_path / "late").mkdir()
    progress.record(verdict(), CODE)
    assert "each check adds a line" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("planted", "fault"),
    [
        ("link", "Too many levels of symbolic links"),
        ("dangling", "Too many levels of symbolic links"),
        ("pipe", "No such device or address"),  # at once: nobody waits for a reader
        ("folder", "Is a directory"),
    ],
)
def test_what_another_has_put_in_the_files_place_is_not_written_to(
    planted, fault, shared, tmp_path, capsys
):
    progress.record(verdict(), CODE)
    capsys.readouterr()
    (path,) = shared.iterdir()
    path.unlink()
    victim = tmp_path / "victim"
    if planted == "link":
        victim.write_text("mine")
    if planted in ("link", "dangling"):
        path.symlink_to(victim)
    elif planted == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    check_goes_on(capsys, fault)
    assert not victim.exists() or victim.read_text() == "mine"


def test_a_pipe_that_somebody_reads_is_not_written_to_either(shared, capsys):
    progress.record(verdict(), CODE)
    capsys.readouterr()
    (path,) = shared.iterdir()
    path.unlink()
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        check_goes_on(capsys, "is not a file")
    finally:
        os.close(reader)


def test_a_folder_that_does_not_answer_is_not_waited_for(shared, monkeypatch, capsys):
    monkeypatch.setattr(class_record, "LIMIT", 0.05)
    monkeypatch.setattr(class_record, "_append", lambda path, data: time.sleep(0.4))
    check_goes_on(capsys, "no answer in 0 s")


def test_a_full_disk_is_reported_and_what_it_cut_short_takes_no_other_line_with_it(
    shared, monkeypatch, capsys
):
    whole = os.write
    monkeypatch.setattr(os, "write", lambda number, data: whole(number, data[:20]))
    check_goes_on(capsys, "No space left on device")
    monkeypatch.setattr(os, "write", whole)
    progress.record(verdict(), CODE)
    (file,) = shared.iterdir()
    assert json.loads(file.read_text().splitlines()[-1])["exercise"] == "ring"


def test_the_instructor_may_read_what_a_strict_umask_would_hide(shared):
    before = os.umask(0o077)
    try:
        progress.record(verdict(), CODE)
    finally:
        os.umask(before)
    (file,) = shared.iterdir()
    assert file.stat().st_mode & 0o777 == 0o644


def test_one_learner_on_two_machines_has_a_file_on_each(shared, monkeypatch):
    progress.record(verdict(), CODE)
    progress.record(verdict(), CODE)
    monkeypatch.setattr(class_record, "_kernel", lambda: "0badcafe")
    progress.record(verdict(), CODE)
    written = {file.name: file.read_text().split("\n\n") for file in shared.iterdir()}
    assert sorted(map(len, written.values())) == [1, 2]
    assert len({name.partition("-")[0] for name in written}) == 1


def _check(home: Path, times: int, begin) -> None:
    os.environ["HPML_HOME"] = str(home)
    begin.wait(60)
    for _ in range(times):
        progress.record(verdict(), CODE)


def test_fifty_processes_at_once_lose_nothing_and_mix_nothing(shared, tmp_path):
    """Forty learners, ten of whom have two notebooks open."""
    homes = [tmp_path / f"home{number % 40}" for number in range(50)]
    context = multiprocessing.get_context("fork")
    begin = context.Barrier(len(homes))
    writers = [context.Process(target=_check, args=(home, 10, begin)) for home in homes]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0] * 50
    assert len(list(shared.iterdir())) == 40
    assert len(lines(shared)) == 500


def test_notebooks_that_are_built_or_run_for_a_report_are_no_learners_checks(tmp_path):
    from hpml.course.instructors.build import kernel_environment
    from hpml.course.run import DataUsed, _environment

    outer = {"HPML_CLASS": "/shared"}
    run = _environment(outer, DataUsed(tmp_path, "", False), tmp_path)
    for environment in (kernel_environment(outer, tmp_path), run):
        assert not environment.get("HPML_CLASS")
