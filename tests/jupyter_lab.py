"""JupyterLab as `./hpml lab` starts it, for tests in a real browser."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

LIMIT = 300.0  # seconds for any one thing to come about; on an idle machine each takes a few


class Lab(NamedTuple):
    """`address` has no slash at its end; `first` is the notebook that it would open, "" if none."""

    address: str
    first: str
    token: str

    def at(self, notebook: str) -> str:
        """The address of a notebook, by its path below JupyterLab's folder."""
        return f"{self.address}/lab/tree/{notebook}?{self.token}"


@contextlib.contextmanager
def lab(folder: Path, *arguments: str, **variables: str) -> Iterator[Lab]:
    """JupyterLab with settings and a log of its own in `folder`. Nothing it starts outlives it."""
    command = [sys.executable, "-m", "hpml", "lab", "--", "--no-browser", "--port", "0"]
    command += ["--LabApp.expose_app_in_browser=True", *arguments]
    log = folder / "lab.log"
    with log.open("w") as written:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=written, stderr=written,
            env=_environment(folder, variables), cwd=folder, start_new_session=True,
        )  # fmt: skip
    try:
        yield _started(process, log)
    finally:
        family = [psutil.Process(process.pid)]
        family += family[0].children(recursive=True)  # kernels are in groups of their own
        process.send_signal(signal.SIGINT)
        _, alive = psutil.wait_procs(family, timeout=60)
        for each in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        process.wait()


def _environment(folder: Path, variables: Mapping[str, str]) -> dict[str, str]:
    own = {f"JUPYTER_{name.upper()}_DIR": str(folder / name) for name in ("runtime", "data")}
    outer = {name: value for name, value in os.environ.items() if name != "HPML_DATA"}
    return {**outer, **own, "JUPYTER_CONFIG_DIR": str(folder / "config"), **variables}


def _started(process: subprocess.Popen, log: Path) -> Lab:
    deadline = time.monotonic() + LIMIT
    while process.poll() is None and time.monotonic() < deadline:
        found = re.search(r"(http://\S+?)/lab(?:/tree/(\S+))?\?(token=\w+)", log.read_text())
        if found:
            return Lab(found[1], found[2] or "", found[3])
        time.sleep(0.1)
    pytest.fail(f"no JupyterLab:\n{log.read_text()}")
