"""./hpml tensorboard as a person runs it: one line where it serves, one line where it cannot."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.measures  # a server

LIMIT = 120
STEP = {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1}
TINY = {
    "traceEvents": [
        {**STEP, "ts": 0.0, "dur": 100.0},
        {**STEP, "cat": "cpu_op", "name": "aten::mm", "ts": 10.0, "dur": 60.0, "args": {}},
    ]
}


@pytest.fixture
def logs(tmp_path) -> Path:
    folder = tmp_path / "logs" / "run"
    folder.mkdir(parents=True)
    (folder / "rank0.1700000000000.pt.trace.json").write_text(json.dumps(TINY))
    return folder.parent


@contextlib.contextmanager
def served(*arguments: str) -> Iterator[tuple[subprocess.Popen, str]]:
    """The command, once it has printed its line."""
    process = subprocess.Popen(
        [sys.executable, "-m", "hpml", "tensorboard", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        yield process, process.stdout.readline()
    finally:
        process.kill()
        process.communicate()


def direct(address: str) -> bytes:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(address, timeout=LIMIT) as answer:
        return answer.read()


def refused(*arguments: str) -> str:
    """What it says where it cannot begin: one line."""
    done = subprocess.run(
        [sys.executable, "-m", "hpml", "tensorboard", *arguments],
        capture_output=True, text=True, timeout=LIMIT,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    return line


def test_it_prints_one_line_with_its_address_and_ends_at_ctrl_c_with_all_it_started(logs):
    with served(str(logs), "--port", "0") as (process, line):
        address = line.split()[-4]
        assert line == f"{logs}: 1 profiles: {address} (Ctrl-C ends it)\n"
        base = address + "data/plugin/pytorch_profiler"
        deadline = time.monotonic() + LIMIT
        while (runs := json.loads(direct(f"{base}/runs"))) != {"runs": ["run"], "loading": False}:
            assert time.monotonic() < deadline, runs
            time.sleep(0.1)
        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LIMIT)
        assert (process.returncode, out, err) == (130, "", "hpml: interrupted\n")
        assert not psutil.wait_procs(family, timeout=LIMIT)[1]


def test_its_profiler_is_there_once_and_tensorboards_own_plugins_are_too(logs):
    with served(str(logs), "--port", "0") as (_, line):
        listed = json.loads(direct(line.split()[-4] + "data/plugins_listing"))
        assert {"pytorch_profiler", "timeseries", "images", "histograms", "hparams"} <= set(listed)
        page = direct(line.split()[-4] + "data/plugin/pytorch_profiler/index.html").decode()
        assert "gstatic" not in page


def test_a_folder_that_is_not_there_or_empty_is_one_line(tmp_path):
    there_not = tmp_path / "nowhere"
    assert refused(str(there_not)) == (
        f"hpml: {there_not}: no such folder: a profiled or logged run makes one"
    )
    assert refused(str(tmp_path)) == (
        f"hpml: {tmp_path}: no profile (*.pt.trace.json) and no events in it, or below"
    )


def test_a_port_in_use_is_one_line(logs):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = refused(str(logs), "--port", str(port))
        assert said == (
            f"hpml: 127.0.0.1:{port}: Address already in use: give another --port, or 0"
        )
        with served(str(logs)) as (_, line):
            assert "http://127.0.0.1:" in line


def test_a_host_that_is_unknown_is_one_line(logs):
    said = refused(str(logs), "--host", "no.such.host.invalid")
    assert said.startswith("hpml: --host no.such.host.invalid: ")
    assert said.endswith(": give an address of this machine, or 0.0.0.0 for all")


def test_a_prefix_may_be_without_its_slash(logs):
    with served(str(logs), "--port", "0", "--path-prefix", "tb") as (_, line):
        address = line.split()[-4]
        assert address.endswith("/tb/")
        assert direct(address + "data/plugins_listing")


def test_every_view_of_a_run_as_a_picture(logs, needs, tmp_path):
    needs("chromium")
    command = [sys.executable, "-m", "hpml", "tensorboard", str(logs), "--port", "0"]
    command += ["--pictures", str(tmp_path / "pictures")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert (done.returncode, done.stderr) == (0, "")
    written = [Path(line) for line in done.stdout.splitlines()[1:]]
    assert [path.name for path in written] == [
        "run-overview.png",
        "run-operator.png",
        "run-trace.png",
    ]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)


def test_pictures_without_a_browser_are_one_line(logs, tmp_path):
    nowhere = {**os.environ, "PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "hpml", "tensorboard", str(logs), "--pictures", str(tmp_path)],
        capture_output=True, text=True, timeout=LIMIT, env=nowhere,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    said = "hpml: --pictures: there is no chromium here: apt install chromium\n"
    assert done.stderr == said
