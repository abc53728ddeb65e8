"""Every hostile submission, graded among honest ones: no points, no harm, nobody marked down."""

import contextlib
import json
import os
import socket
import stat
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import cloudpickle
import pytest
from typer.testing import CliRunner

from hpml.bench.instructors import attacks
from hpml.cli.instructors import bench_grading_command
from hpml.grading import batch, intake, sandbox
from hpml.ranks import launch
from hpml.ranks.parent import warm

from ..suite.import_graph import check_file

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # a sandbox has no tests

ELSEWHERE = {"18", "28"}  # archives: below, and in test_intake; a grader that dies: test_batch
ALL = attacks.read_all()
LONG = ("ddp", "checkpoint", "ddp_train", "process_group")  # seconds each


BENCH = "src/hpml/bench/instructors/attacks.py"
SMALL = sandbox.Limits(
    memory=600 * sandbox.MIB, processes=60, processor=20, wall=30, disk=16 * sandbox.MIB
)

sandboxed = pytest.mark.usefixtures("sandboxed")
grouped = pytest.mark.skipif(
    sandbox.missing() is None and sandbox.GROUP not in sandbox.layers(),
    reason="no control groups can be made here",
)


def test_every_row_has_an_attack():
    rows = {row.strip() for attack in ALL for row in attack.row.split(",")}
    assert {
        str(number) for number in (*range(1, 29), 34, *range(36, 41), *range(45, 55))
    } - rows == ELSEWHERE


@pytest.mark.timeout(2400)  # where all are new; 600 s is for one thing
@sandboxed
@grouped
@pytest.mark.parametrize("long", [False, True], ids=["quick", "long"])
@pytest.mark.measures
def test_no_points_no_harm_and_nobody_marked_down(long, in_turn, key_of):
    # Bombs only go off where a limit is known to hold: see the next two tests, and `grouped`.
    keys = {
        attack.name: key_of(
            [BENCH, check_file(attack.exercise)], attack.source or attack.path.read_text()
        )
        for attack in ALL
        if (attack.exercise in LONG) == long
    }
    chosen = in_turn("attacks", keys)
    tried = [attack for attack in ALL if attack.name in chosen]
    said: list[str] = []
    outcome = attacks.run(tried, examine=attacks.examine_briefly, shared=True, say=said.append)
    assert (outcome.unearned, outcome.harmed, outcome.marked_down) == ({}, (), ()), said
    assert {attack.name for attack in tried} < set(outcome.records)
    assert len(outcome.records) > len(tried)  # the honest


@sandboxed
@pytest.mark.measures
def test_the_memory_limit_holds():
    with sandbox.sandbox(SMALL) as box, warm.using(box.server):
        with contextlib.suppress(warm.ServerDied):
            launch(_takes_too_much, 1, timeout=20)
        wait_until(lambda: box.exceeded)
    assert box.exceeded == "it used more than 600 MiB of memory"


@sandboxed
@grouped
def test_the_limit_on_processes_holds():
    with sandbox.sandbox(SMALL) as box, warm.using(box.server):
        (started,) = launch(_starts_threads, 1, timeout=20).values
    assert 0 < started < 60


@sandboxed
def test_the_server_is_out_of_reach_and_nothing_but_its_tmp_can_be_written():
    with sandbox.sandbox(SMALL) as box, warm.using(box.server):
        evidence = launch(_looks_around, 1, timeout=20)
        assert box.alive
    (seen,) = evidence.values
    assert seen["written"] == ["/tmp", "/dev/shm"]
    # Of the server and the supervisor, nothing can be seen where ranks have their own namespaces
    alone = sandbox.forks()
    assert seen["first"] == ("sleep" if alone else "python")
    assert seen["opened"] == []
    assert seen["others"] == (1 if alone else 2)


@sandboxed
def test_ranks_count_the_memory_that_they_share_once():
    # Each has what it was forked with, 200 MiB and more, in common with the server.
    with sandbox.sandbox(SMALL) as box, warm.using(box.server):
        evidence = launch(_waits, 4, timeout=20)
    assert (box.exceeded, evidence.diagnosis) == ("", None)


@sandboxed
def test_archives_that_lead_elsewhere_are_refused_and_the_others_graded(tmp_path):
    right = next(attack for attack in ALL if attack.name == "27_noisy")
    attacks._write(tmp_path / "right.ipynb", [right.source])
    text = (tmp_path / "right.ipynb").read_text()
    with zipfile.ZipFile(tmp_path / "class.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("right/00_your_machine.ipynb", text)
        archive.writestr("../../escaped/00_your_machine.ipynb", text)
        link = zipfile.ZipInfo("link/00_your_machine.ipynb")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
        fifo = zipfile.ZipInfo("fifo/00_your_machine.ipynb")
        fifo.external_attr = (stat.S_IFIFO | 0o777) << 16
        archive.writestr(fifo, "")
        archive.writestr("bomb/00_your_machine.ipynb", b" " * 2**28)
    submissions = intake.collect([tmp_path / "class.zip"], tmp_path)
    judge = attacks.Judge(
        attacks.schedule.load(),
        ("hello_ranks",),
        limits=attacks.LIMITS,
        examine=attacks.examine_briefly,
    )
    records = batch.grade(submissions, judge, tmp_path / "out", attacks._Listener(print))
    earned = {record.person: record.earned for record in records}
    assert earned.pop("right") == 2
    assert set(earned.values()) <= {0}
    assert all(record.refused for record in records if record.person != "right")
    assert not list(tmp_path.parent.glob("escaped*"))


def test_what_is_wrong_with_an_outcome_is_seen(monkeypatch):
    """The runner, over a grader that gives everybody full marks, or nobody any."""
    one = next(attack for attack in ALL if attack.name == "01_exit_when_called")
    right = next(attack for attack in ALL if attack.name == "27_noisy")

    def graded(earned, status):
        def grade(submissions, judge, *_args, **_options):
            return [
                attacks.Record(
                    person=each.person,
                    digest="",
                    layers=(),
                    unsafe=False,
                    results=(_result(earned, status),),
                )
                for each in submissions
            ]

        return grade

    monkeypatch.setattr(batch, "grade", graded(2, "passed"))
    outcome = attacks.run([one, right], say=print)
    assert outcome.unearned == {"01_exit_when_called": 2}
    assert (outcome.harmed, outcome.marked_down) == ((), ())
    monkeypatch.setattr(batch, "grade", graded(0, "not gradable"))
    outcome = attacks.run([one, right], say=print)
    assert outcome.unearned == {}
    assert set(outcome.marked_down) == {"honest", "27_noisy"}
    assert len(outcome.harmed) == 3
    monkeypatch.setattr(batch, "grade", lambda *_args, **_options: [])
    assert len(attacks.run([one, right], say=print).harmed) == 3


def test_harm_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr(attacks, "_sources", lambda: {})
    with attacks._canaries() as canaries:
        assert canaries.harm("all is well") == []
        home, checkout = canaries.files
        assert "must not see" in canaries.harm(home.read_text())[0]
        assert "must not see" in canaries.harm("SystemError: hpml-canary-read: memory")[0]
        (tmp_path / "hpml-canary-pickle").touch()
        assert "unpickled" in canaries.harm("")[0]
        (tmp_path / "hpml-canary-pickle").unlink()
        home.write_text("pwned")
        checkout.unlink()
        assert [line.endswith("was changed") for line in canaries.harm("")] == [True, True]
        home.write_text(canaries.token)
        checkout.write_text(canaries.token)
        monkeypatch.setattr(attacks, "_sources", lambda: {Path("results.json"): (1, 2)})
        assert canaries.harm("") == ["results.json was changed"]
        monkeypatch.setattr(attacks, "_sources", lambda: {})
        with socket.socket(socket.AF_UNIX) as out:
            out.connect(f"\0{canaries.token}")
            wait_until(lambda: canaries.reached)
        assert "was reached" in canaries.harm("")[0]
        canaries.reached.clear()
        left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        try:
            assert canaries.harm("") == [f"process {left.pid} was left behind"]
        finally:
            left.kill()
            left.wait()
    assert not home.exists()
    assert not checkout.exists()


def test_the_command_fails_where_points_were_given(monkeypatch, tmp_path):
    given = attacks.Outcome({"honest": None}, unearned={"01_exit_when_called": 2})
    monkeypatch.setattr(attacks, "run", lambda *_args, **_options: given)
    file = tmp_path / "attacks.json"
    words = ["attacks", "--only", "01_exit_when_called", "--json", str(file)]
    ended = CliRunner().invoke(bench_grading_command.app, words)
    assert ended.exit_code == 1, ended.output
    values = {row["name"]: row["values"] for row in json.loads(file.read_text())["rows"]}
    assert values["attacks tried"] == [1]
    assert values["unearned points given"] == [2]
    monkeypatch.setattr(attacks, "run", lambda *_a, **_o: replace(given, unearned={}))
    assert CliRunner().invoke(bench_grading_command.app, words).exit_code == 0


def wait_until(happened, limit: float = 60.0) -> None:
    deadline = time.monotonic() + limit
    while not happened() and time.monotonic() < deadline:
        time.sleep(0.01)


def _result(earned: int, status: str):
    from hpml.grading.record import Result

    return Result("hello_ranks", "", "00", status, 2, earned, "")


def _takes_too_much() -> int:
    return len(bytearray(b"x" * (700 * 2**20)))


def _starts_threads() -> int:
    import threading
    import time

    started = 0
    with contextlib.suppress(RuntimeError):
        for _ in range(80):
            threading.Thread(target=time.sleep, args=(20,), daemon=True).start()
            started += 1
    return started


def _waits() -> None:
    import time

    time.sleep(0.5)


def _looks_around() -> dict:
    written, opened = [], []
    for folder in ("/", "/usr", "/dev", "/etc", "/root", "/tmp", "/dev/shm", sys.prefix):
        with contextlib.suppress(OSError):
            open(f"{folder}/written", "w").close()
            written.append(folder)
    others = [name for name in os.listdir("/proc") if name.isdecimal() and int(name) != os.getpid()]
    for name in others:
        for what in ("mem", "environ", "fd/0"):
            with contextlib.suppress(OSError):
                open(f"/proc/{name}/{what}").close()
                opened.append(f"{name} {what}")
    first = Path("/proc/1/comm").read_text().strip()
    os.kill(1, 19)  # SIGSTOP, which the first process in a namespace does not get from inside
    return {"written": written, "opened": opened, "others": len(others), "first": first}
