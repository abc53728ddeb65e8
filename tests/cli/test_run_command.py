"""./hpml run and ./hpml lab as they are typed."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import nbformat
import psutil
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from hpml import data, doctor
from hpml.cli import main
from hpml.course import schedule
from hpml.doctor import Fact

COURSE = """
title = "A day"
subtitle = "short"
[[module]]
id = "03"
name = "rings"
title = "Rings"
slot = "09:00"
minutes = 45
asks = "Why?"
exercises = []
"""


@pytest.fixture
def small_day(tmp_path: Path, monkeypatch):
    """`small_day(lecture, solution)` makes a day of one module with one code cell in either."""

    def make(lecture: str, solution: str) -> None:
        for folder, code in (("notebooks", lecture), ("solutions", solution)):
            (tmp_path / folder).mkdir()
            notebook = new_notebook(cells=[new_code_cell(code)])
            nbformat.write(notebook, tmp_path / folder / "03_rings.ipynb")
        (tmp_path / "course.toml").write_text(COURSE)
        load = schedule.load
        monkeypatch.setattr(schedule, "load", lambda: load(tmp_path / "course.toml"))
        found = SimpleNamespace(
            folder=tmp_path, synthetic=True, describe=lambda: "SYNTHETIC images, from here"
        )
        monkeypatch.setattr(data, "load", lambda path: found)
        monkeypatch.setenv("HPML_DATA", "/elsewhere")
        facts = (Fact("cores", "2 usable", True),)
        monkeypatch.setattr(doctor, "facts", lambda: (*facts, _data_fact()))

    return make


def _data_fact() -> Fact:
    return Fact("data", f"looked for in {os.environ['HPML_DATA']}", True)


def hpml(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    return left.value.code


def test_a_run_prints_a_line_per_cell_and_writes_a_report(small_day, tmp_path: Path, capsys):
    small_day("# Add up\nprint(1)", "2")
    assert hpml("run", "--out", str(tmp_path / "out")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Data: SYNTHETIC images, from here"
    assert re.fullmatch(r"03 lecture  1 of 1  Add up +\d+\.\d s", lines[1])
    assert re.fullmatch(r"03 solution 1 of 1  2 +\d+\.\d s", lines[2])
    assert lines[3].startswith("All 2 cells ran, in ")
    assert lines[4] == f"Report: {tmp_path / 'out' / 'index.html'}"
    front = (tmp_path / "out" / "index.html").read_text()
    assert "SYNTHETIC" in front
    assert "2 usable" in front
    assert f"looked for in {tmp_path}<" in front


def test_a_failed_cell_is_named_and_the_exit_code_is_1(small_day, tmp_path: Path, capsys):
    small_day("raise ValueError('[bold]no[/bold]')", "2")
    assert hpml("run", "3", "--out", str(tmp_path / "out")) == 1
    output = capsys.readouterr().out
    assert re.search(r"03 lecture  1 of 1  .*\d s  FAILED\n", output)
    assert "failed: module 03, lecture notebook" in output
    assert "ValueError: [bold]no[/bold]" in output
    assert re.search(r"03 solution 1 of 1  2 +\d+\.\d s\n", output)
    assert "What failed" in (tmp_path / "out" / "index.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "99"], "no module '99' in course.toml"),
        (["run", "--data", "/no/such/folder"], "--data /no/such/folder does not exist"),
        (["run", "--cell-timeout", "0"], "greater than or equal to 1"),
        (["lab", "--data", "/no/such/folder"], "--data /no/such/folder does not exist"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(arguments, message, capsys):
    assert hpml(*arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_an_output_folder_with_other_files_is_left_alone(small_day, tmp_path: Path, capsys):
    small_day("1", "2")
    assert hpml("run", "--out", str(tmp_path)) == 2
    assert "has files in it but no report" in capsys.readouterr().err


def test_jupyterlab_opens_the_first_notebook_asks_nobody_and_ends_at_one_ctrl_c(tmp_path: Path):
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks/00_your_machine.ipynb").write_text(
        '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
    )
    environment = {
        **os.environ,
        "HPML_HOME": str(tmp_path / "home"),
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
    }
    command = [sys.executable, "-m", "hpml", "lab", "--no-browser", "--port", "0", "--"]
    command.append(f"--ServerApp.root_dir={tmp_path}")
    log = tmp_path / "log"
    with open(log, "w") as written:
        lab = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=written, stderr=written,
            env=environment, start_new_session=True,
        )  # fmt: skip
    try:
        address = wait_for_address(lab, log)
        assert re.search(r"^Core path: 0 of \d+ exercises passed, next: ", log.read_text(), re.M)
        base, token = re.fullmatch(
            r"(http://127.0.0.1:\d+)/lab/tree/notebooks/00_your_machine.ipynb\?token=(\w+)", address
        ).groups()
        page = fetch(address)
        assert '"disabledExtensions": ["@jupyterlab/extensionmanager-extension"' in page
        assert '"news": {"disabled": true}' in page
        assert "kernels" in json.loads(fetch(f"{base}/api/status?token={token}"))
        viewers = setting(base, token, "@jupyterlab/docmanager-extension:plugin", "defaultViewers")
        assert viewers == {"markdown": "Markdown Preview"}
        notices = "@jupyterlab/apputils-extension:notification"
        assert setting(base, token, notices, "fetchNews") == "false"
        assert setting(base, token, notices, "checkForUpdates") is False
        group = [process.pid for process in psutil.process_iter() if in_group(process.pid, lab.pid)]
        assert lab.pid in group
        lab.send_signal(signal.SIGINT)
        assert lab.wait(timeout=60) == 0
        assert not re.search("WARN|Traceback", log.read_text()), log.read_text()
        assert not [pid for pid in group if psutil.pid_exists(pid)]
    finally:
        if lab.poll() is None:
            os.killpg(lab.pid, signal.SIGKILL)
            lab.wait()


def in_group(pid: int, group: int) -> bool:
    try:
        return os.getpgid(pid) == group
    except ProcessLookupError:
        return False


def wait_for_address(lab: subprocess.Popen, log: Path) -> str:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and lab.poll() is None:
        found = re.search(r"http://127\.0\.0\.1\S+\n", log.read_text())
        if found:
            return found[0].strip()
        time.sleep(0.1)
    raise AssertionError(f"JupyterLab did not come up:\n{log.read_text()}")


def fetch(address: str) -> str:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(address, timeout=60) as answer:
        assert answer.status == 200
        return answer.read().decode()


def setting(base: str, token: str, plugin: str, name: str) -> object:
    schema = json.loads(fetch(f"{base}/lab/api/settings/{plugin}?token={token}"))["schema"]
    return schema["properties"][name]["default"]
