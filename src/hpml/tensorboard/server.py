"""TensorBoard as a server of this process, with its own plugins and the profiler's views."""

import logging
import multiprocessing
import socket
import sys
import warnings
from importlib import metadata
from pathlib import Path
from typing import Any

from hpml.errors import UserError
from hpml.trace.event_files import leave_tensorflow_out

PORT = 6006  # TensorBoard's own
REPLACED = "torch_profiler"  # the entry point that would load the plugin's own page


def start(folder: Path, host: str = "127.0.0.1", port: int | None = None, prefix: str = "") -> str:
    """Serve the log folder from a thread of this process; its address, "http://127.0.0.1:6006/".

    `port` 0 is any free one; without, the first free one from 6006. `prefix` is the path below
    which a proxy shows it. Raises UserError where the folder is none, the host is unknown, or the
    port is taken.
    """
    check(folder)
    _check_known(host)
    if port:
        _check_free(host, port)
    leave_tensorflow_out()
    warnings.filterwarnings("ignore", module="tensorboard")
    from tensorboard import program

    server = program.TensorBoard(plugins=plugins())
    for name in ("tensorboard", "pytorch_profiler"):  # remarks about single events
        logging.getLogger(name).setLevel(logging.CRITICAL)
    given = ["tensorboard", "--logdir", str(folder), "--host", host, "--load_fast", "false"]
    given += ["--port", str(port)] if port is not None else []
    given += ["--path_prefix", "/" + prefix.strip("/")] if prefix.strip("/") else []
    server.configure(given)
    try:
        return server.launch()
    except program.TensorBoardServerException as error:
        raise UserError(error.msg) from error


def stop() -> None:
    """End the processes that parse, also in the middle of a trace; before this one ends."""
    from hpml.tensorboard import plugin

    plugin.ENDING.set()
    for process in multiprocessing.active_children():
        process.kill()


def plugins() -> list[Any]:
    """TensorBoard's own, those that are installed, and the profiler's with its page of here."""
    from tensorboard import default

    from hpml.tensorboard import xprof_page
    from hpml.tensorboard.plugin import OfflineProfilerPlugin

    installed = []
    for entry in metadata.entry_points(group="tensorboard_plugins"):
        if entry.name == REPLACED or entry.value.startswith("torch_tb_profiler"):
            continue
        try:
            installed.append(xprof_page.loader() if _is_xprof(entry) else entry.load())
        except Exception as error:
            print(f"plugin {entry.name} not loaded: {error}", file=sys.stderr)
    return [*default.get_static_plugins(), *installed, OfflineProfilerPlugin]


def _is_xprof(entry: metadata.EntryPoint) -> bool:
    return entry.value.startswith("xprof.")


def check(folder: Path) -> None:
    """Raise UserError unless there is something in the log folder that TensorBoard can show."""
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder: a profiled or logged run makes one")
    if not any(found(folder).values()):
        raise UserError(f"{folder}: no profile (*.pt.trace.json) and no events in it, or below")


def found(folder: Path) -> dict[str, int]:
    """How many "profiles" and "event files" there are in a folder and below."""
    from torch_tb_profiler.consts import WORKER_PATTERN

    names = [path.name for path in folder.rglob("*") if path.is_file()]
    return {
        "profiles": sum(bool(WORKER_PATTERN.match(name)) for name in names),
        "event files": sum("tfevents" in name or name.endswith(".xplane.pb") for name in names),
    }


def _check_known(host: str) -> None:
    try:
        socket.getaddrinfo(host, None)
    except OSError as error:
        raise UserError(
            f"--host {host}: {error.strerror}: give an address of this machine, or 0.0.0.0 for all"
        ) from error


def _check_free(host: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise UserError(f"{host}:{port}: {reason}: give another --port, or 0") from error
