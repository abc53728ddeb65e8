"""TensorBoard below a cell: through JupyterLab's own port, in a real browser, with no internet."""

import contextlib
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import psutil
import pytest
import torch
from IPython.core.error import UsageError

from hpml.notebook import tensorboard_frame
from hpml.tensorboard import browser
from hpml.train.profiled_steps import STEPS, ProfiledSteps

from ..jupyter_lab import LIMIT, lab

pytestmark = pytest.mark.measures  # a browser

NOTEBOOK = "[...jupyterapp.shell.widgets('main')][0]"
KERNEL = f"{NOTEBOOK}?.sessionContext?.session?.kernel?.status == 'idle'"
RUN = f"""(async () => {{
    jupyterapp.shell.activateById({NOTEBOOK}.id);
    await jupyterapp.commands.execute("notebook:run-cell");
}})()"""
FRAME = "document.querySelector('.jp-Cell-outputArea iframe')"
PROFILER = f"{FRAME}?.contentDocument?.querySelector('iframe')?.contentDocument?.body"


@pytest.fixture
def logs(tmp_path) -> Path:
    """A log folder with a profile of three steps in it."""
    profiled = ProfiledSteps(tmp_path / "logs", rank=0, world_size=1, cuda=False)
    for _ in range(STEPS):
        torch.ones(100, 100) @ torch.ones(100, 100)
        profiled.step(1)
    profiled.close()
    return tmp_path / "logs"


def test_where_no_jupyter_server_runs_the_kernel_it_says_what_to_do(monkeypatch, capsys, logs):
    monkeypatch.delenv("JPY_PARENT_PID", raising=False)
    monkeypatch.delenv("JUPYTERHUB_SERVICE_PREFIX", raising=False)
    monkeypatch.setenv("HPML_HOME", str(logs.parent))
    tensorboard_frame.show_tensorboard(logs)
    said = capsys.readouterr().out
    assert said.endswith(f"./hpml tensorboard {logs.parent.name}/logs\n")


def test_the_base_url_is_that_of_the_server_that_started_the_kernel(monkeypatch):
    servers = [{"pid": 7, "base_url": "/"}, {"pid": 8, "base_url": "/hub/ada/"}]
    monkeypatch.setattr("jupyter_server.serverapp.list_running_servers", lambda: iter(servers))
    monkeypatch.delenv("JUPYTERHUB_SERVICE_PREFIX", raising=False)
    monkeypatch.setenv("JPY_PARENT_PID", "8")
    assert tensorboard_frame.lab_base_url() == "/hub/ada/"
    monkeypatch.setenv("JPY_PARENT_PID", "9")
    assert tensorboard_frame.lab_base_url() is None
    monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", "/user/ada/")
    assert tensorboard_frame.lab_base_url() == "/user/ada/"


def test_a_folder_with_nothing_in_it_gets_the_commands_own_line(monkeypatch, tmp_path):
    monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", "/")
    with pytest.raises(UsageError, match=r"no profile .* and no events in it"):
        tensorboard_frame.show_tensorboard(tmp_path)


def test_a_second_call_shows_the_same_server_and_a_killed_kernel_takes_it_along(logs):
    source = f"""
import os, pathlib, signal
from hpml.notebook import tensorboard_frame as frame
folder = pathlib.Path({str(logs)!r})
assert frame._port(folder) == frame._port(folder)
(server,) = frame._servers.values()
print(server.process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = subprocess.run(
        [sys.executable, "-c", source], stdout=subprocess.PIPE, text=True, timeout=LIMIT
    )
    assert ended.returncode == -signal.SIGKILL
    deadline = time.monotonic() + LIMIT
    while psutil.pid_exists(int(ended.stdout)) and time.monotonic() < deadline:
        with contextlib.suppress(psutil.NoSuchProcess):
            if psutil.Process(int(ended.stdout)).status() == psutil.STATUS_ZOMBIE:
                break
        time.sleep(0.05)
    assert time.monotonic() < deadline


def test_in_jupyterlab_the_profilers_page_is_below_the_cell(needs, logs):
    chromium, folder = needs("chromium"), logs.parent
    cell = nbformat.v4.new_code_cell("%load_ext hpml\nshow_tensorboard('logs')")
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = nbformat.v4.new_notebook(cells=[cell], metadata={"kernelspec": kernel})
    nbformat.write(notebook, folder / "frame.ipynb")
    hub = [f"--ServerApp.root_dir={folder}", "--ServerApp.base_url=/hub/ada/"]  # as a hub gives it
    with lab(folder, *hub) as started, browser.page(chromium, LIMIT) as page:
        page.size(1300, 1100)
        page.open(started.at("frame.ipynb"))
        page.wait(KERNEL)
        page.value(RUN)
        source = page.wait(f"{FRAME}?.src")
        assert re.fullmatch(rf"{started.address}/proxy/\d+/", source)
        # A folder with nothing but profiles: TensorBoard begins with the profiler's page.
        page.wait(f"{PROFILER}?.innerText.includes('CPU Exec')")
        page.wait(f"{PROFILER}.querySelectorAll('canvas').length")
        assert "rank0" in page.value(f"{PROFILER}.innerText")
        origin = started.address.removesuffix("/hub/ada")
        inline = ("data:", "blob:", "about:")
        assert [u for u in page.requested if not u.startswith((origin, *inline))] == []
