"""TensorBoard below a notebook cell, also where JupyterLab itself is seen through one ssh tunnel.

The page comes by JupyterLab's own address and port: jupyter-server-proxy hands /proxy/6006/ on to
port 6006 of the machine that JupyterLab runs on (https://jupyter-server-proxy.readthedocs.io).
`%tensorboard` would have the browser ask port 6006 of its own machine, where nothing listens unless
a second tunnel was made.
"""

import atexit
import os
import re
import selectors
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from hpml.errors import UserError
from hpml.paths import home
from hpml.ranks.processes import die_with_parent

LIMIT = 60.0  # seconds until it listens
TUNNEL = "ssh -L 8888:localhost:8888 MACHINE"


@dataclass(frozen=True)
class _Server:
    process: subprocess.Popen
    port: int


_servers: dict[Path, _Server] = {}


def show_tensorboard(folder: str | os.PathLike[str] = "logs", height: int = 800) -> None:
    """Show TensorBoard on a log folder, below the cell, `height` pixels high.

    The server listens on this machine alone and ends with the kernel; a second call for the same
    folder shows the same one. Where no JupyterLab runs the notebook, a line says what to do
    instead. Raises UsageError, which a notebook shows as one line, for a folder without profiles
    and events.
    """
    from IPython.core.error import UsageError
    from IPython.display import IFrame, display

    base = lab_base_url()
    if base is None:
        print(
            "This notebook is not open in JupyterLab. In a terminal: "
            f"./hpml tensorboard {_from_the_course(Path(folder))}"
        )
        return
    try:
        port = _port(Path(folder).resolve())
    except UserError as error:
        raise UsageError(f"show_tensorboard: {error}") from None
    display(IFrame(f"{base}proxy/{port}/", width="100%", height=height))
    print(
        f"In a tab of its own: JupyterLab's address with /proxy/{port}/ in the place of /lab. "
        f"JupyterLab's tunnel is enough: {TUNNEL}"
    )


def _from_the_course(folder: Path) -> Path:
    """A folder in the course's own one as it is named where `./hpml` is; notebooks are shared."""
    where = home()
    return folder.relative_to(where.parent) if folder.is_relative_to(where) else folder


def lab_base_url() -> str | None:
    """The path at which the browser sees the server that started this kernel: "/", or a hub's
    "/user/ada/". None where no Jupyter server did.
    """
    from jupyter_server.serverapp import list_running_servers

    if prefix := os.environ.get("JUPYTERHUB_SERVICE_PREFIX"):
        return prefix
    parent = os.environ.get("JPY_PARENT_PID")
    for server in list_running_servers():
        if str(server["pid"]) == parent:
            return server["base_url"]
    return None


def _port(folder: Path) -> int:
    """The port of the server on `folder`, started where there is none."""
    server = _servers.get(folder)
    if server is None or server.process.poll() is not None:
        server = _servers[folder] = _start(folder)
    return server.port


def _start(folder: Path) -> _Server:
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "hpml", "tensorboard", str(folder), "--port", "0"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            preexec_fn=die_with_parent,  # a kernel that is killed takes it along
        )
        atexit.register(process.kill)
        if found := re.search(r"http://[^/\s]+:(\d+)/", _first_line(process)):
            return _Server(process, int(found[1]))
        process.kill()
        process.wait()
        errors.seek(0)
        last = errors.read().decode(errors="replace").strip().splitlines()
    raise UserError(last[-1] if last else f"TensorBoard did not start within {LIMIT:.0f} s")


def _first_line(process: subprocess.Popen) -> str:
    """The first line that it prints, or what there is of it when it ends or time is up."""
    assert process.stdout is not None  # a pipe
    os.set_blocking(process.stdout.fileno(), False)
    deadline, text = time.monotonic() + LIMIT, b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while b"\n" not in text and selector.select(max(deadline - time.monotonic(), 0)):
            chunk = process.stdout.read()
            if not chunk:
                break
            text += chunk
    return text.decode(errors="replace")
