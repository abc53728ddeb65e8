"""Execute one notebook in a fresh kernel, cell by cell, and record each cell's outcome.

The notebook on disk is not changed; the executed copy is in memory until it is saved. A cell that
fails, hangs or kills the kernel ends the notebook, never the caller. After the call, all processes
in the kernel's process group have ended.
"""

import asyncio
import contextlib
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

import nbformat
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from nbformat import NotebookNode

INTERRUPT_GRACE = 5.0  # seconds for an interrupted cell to show its traceback
STARTUP = 60.0  # seconds for a kernel to answer
_TITLE_WIDTH = 44  # characters of a cell's title


@dataclass
class CellRun:
    """One code cell. `index` is its place among all cells, `title` is for people."""

    index: int
    title: str
    status: Literal["not run", "ran", "failed"] = "not run"
    seconds: float = 0.0
    error: str = ""  # one line


@dataclass
class NotebookRun:
    """One notebook and its code cells, as far as they were executed."""

    path: Path
    notebook: NotebookNode
    cells: list[CellRun]
    seconds: float = 0.0
    error: str = ""  # outside of any cell: the kernel did not start
    kernel_log: str = field(default="", repr=False)  # the last lines the kernel wrote, if it died

    @property
    def failed(self) -> CellRun | None:
        return next((cell for cell in self.cells if cell.status == "failed"), None)

    @property
    def status(self) -> Literal["not run", "ran", "failed", "interrupted"]:
        if self.error or self.failed:
            return "failed"
        ran = sum(cell.status == "ran" for cell in self.cells)
        if ran == len(self.cells):
            return "ran"
        return "interrupted" if ran or self.seconds else "not run"


class Listener(Protocol):
    """Receives the progress of a notebook."""

    def started(self, run: NotebookRun, cell: CellRun, number: int) -> None:
        """A cell begins; `number` counts code cells from 1."""

    def ended(self, run: NotebookRun, cell: CellRun, number: int) -> None:
        """A cell has ended, passed or failed."""


def open_notebook(path: Path) -> NotebookRun:
    """Read a notebook (any nbformat 4), outputs removed, no cell run yet."""
    notebook = nbformat.read(path, as_version=4)
    cells, heading = [], ""
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            heading = _last_heading(cell.source) or heading
        elif cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
            if cell.source.strip():
                cells.append(CellRun(index, _title(cell.source, heading)))
                heading = ""
    return NotebookRun(path, notebook, cells)


def execute(
    run: NotebookRun,
    environment: Mapping[str, str],
    listener: Listener,
    *,
    log: Path,
    cell_timeout: float = 1200.0,
) -> None:
    """Execute a notebook's code cells in order, in its own folder, and fill in `run`.

    The kernel is always this interpreter, with `environment` as its whole environment; its output
    outside of cells goes to the file `log`. A cell tagged `raises-exception` may fail. A cell that
    takes longer than `cell_timeout` seconds is interrupted and has failed, with its traceback.
    KeyboardInterrupt is passed on; `run` then has the cells executed so far.
    """
    asyncio.run(_execute(run, dict(environment), listener, log, cell_timeout))


class _ThisInterpreter(KernelSpecManager):
    """Kernels run this interpreter, not one from an installed kernelspec."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=argv, display_name="Python 3", language="python")


async def _execute(
    run: NotebookRun,
    environment: dict[str, str],
    listener: Listener,
    log: Path,
    cell_timeout: float,
) -> None:
    began = time.monotonic()
    # Sockets in a folder, not TCP: ports are chosen before the kernel binds them, and another
    # program may take one in between.
    sockets = tempfile.mkdtemp(prefix="hpml-")
    kernel = AsyncKernelManager(
        kernel_name="python3",
        kernel_spec_manager=_ThisInterpreter(),
        transport="ipc",
        ip=str(Path(sockets) / "kernel"),
    )
    client = NotebookClient(
        run.notebook,
        km=kernel,
        resources={"metadata": {"path": str(run.path.parent)}},
        timeout=None,  # `_execute_cell` has its own, which interrupts the cell
        startup_timeout=STARTUP,
        coalesce_streams=True,
        shutdown_kernel="immediate",
        log=_quiet(),
    )
    log.parent.mkdir(parents=True, exist_ok=True)
    group = None
    try:
        with open(log, "wb") as written:
            try:
                await client.async_start_new_kernel(env=environment, stdout=written, stderr=written)
                assert isinstance(kernel.provisioner, LocalProvisioner)
                group = kernel.provisioner.pgid  # a session of its own
                await client.async_start_new_kernel_client()
            except (RuntimeError, OSError, TimeoutError) as error:
                run.error = f"the kernel did not start: {_one_line(error)}"
                run.kernel_log = _tail(log)
                return
            for number, cell in enumerate(run.cells, 1):
                listener.started(run, cell, number)
                started = time.monotonic()
                try:
                    await _execute_cell(client, kernel, cell, cell_timeout)
                    cell.status = "ran"
                except _CellFailed as failure:
                    cell.status, cell.error = "failed", str(failure)
                    if failure.kernel_died:
                        run.kernel_log = _tail(log)
                    _add_output(run.notebook.cells[cell.index], failure)
                finally:
                    cell.seconds = time.monotonic() - started
                    listener.ended(run, cell, number)
                if cell.status == "failed":
                    break
    finally:
        run.seconds = time.monotonic() - began
        with contextlib.suppress(Exception):  # a kernel that is gone cannot be shut down
            await client._async_cleanup_kernel()
        if group:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        shutil.rmtree(sockets, ignore_errors=True)


class _CellFailed(Exception):
    def __init__(self, message: str, *, kernel_died: bool = False, shown: bool = False) -> None:
        super().__init__(message)
        self.kernel_died = kernel_died
        self.shown = shown  # the cell's outputs have the traceback already


async def _execute_cell(
    client: NotebookClient, kernel: AsyncKernelManager, cell: CellRun, timeout: float
) -> None:
    source = client.nb.cells[cell.index]
    task = asyncio.ensure_future(client.async_execute_cell(source, cell.index))
    late = False
    try:
        done, _ = await asyncio.wait({task}, timeout=timeout)
        if not done:
            late = True
            await kernel.interrupt_kernel()
            done, _ = await asyncio.wait({task}, timeout=INTERRUPT_GRACE)
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=INTERRUPT_GRACE)
        failure = task.exception() if task.done() and not task.cancelled() else None
    too_long = f"ran longer than {timeout:g} s and was stopped"
    if late and not done:
        raise _CellFailed(f"{too_long}; it did not react to an interrupt")
    if isinstance(failure, CellExecutionError):
        message = too_long if late else _one_line(f"{failure.ename}: {failure.evalue}")
        raise _CellFailed(message, shown=True) from None
    if isinstance(failure, DeadKernelError):
        raise _CellFailed(f"the kernel died: {await _cause_of_death(kernel)}", kernel_died=True)
    if failure is not None:
        raise failure
    if late:
        raise _CellFailed(too_long)


async def _cause_of_death(kernel: AsyncKernelManager) -> str:
    status = await kernel.provisioner.poll() if kernel.provisioner else None
    if status is None:
        return "no exit status is known"
    if status >= 0:
        return f"it left with exit status {status}"
    name = signal.Signals(-status).name
    likely = " (out of memory, most often)" if name == "SIGKILL" else ""
    return f"killed by {name}{likely}"


def _add_output(cell: NotebookNode, failure: _CellFailed) -> None:
    """Add the failure to the executed copy if the kernel could not."""
    if not failure.shown:
        cell.outputs.append(
            nbformat.v4.new_output("error", ename="Stopped", evalue=str(failure), traceback=[])
        )


def _title(source: str, heading: str) -> str:
    """A cell's magic, else the heading just above it, else its first line with any text."""
    lines = [line.strip() for line in source.splitlines() if line.strip()]
    title = next((line for line in lines if line.startswith("%%")), "")
    title = title or heading or next((line.lstrip("# ") for line in lines if line.strip("# ")), "")
    return title if len(title) <= _TITLE_WIDTH else title[: _TITLE_WIDTH - 1].rstrip() + "…"


def _last_heading(markdown: str) -> str:
    fenced = re.sub(r"^```.*?^```", "", markdown, flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"^#{1,6}\s+(.+?)\s*#*$", fenced, flags=re.MULTILINE)
    return re.sub(r"[`*_]{1,2}(\S.*?)[`*_]{1,2}", r"\1", found[-1]) if found else ""


def _one_line(error: object, limit: int = 300) -> str:
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    joined = " ".join(lines)
    return joined if len(joined) <= limit else joined[: limit - 1] + "…"


def _tail(log: Path, lines: int = 20) -> str:
    with contextlib.suppress(OSError):
        return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
    return ""


def _quiet() -> object:
    import logging

    logger = logging.getLogger("hpml.course.execute")
    logger.setLevel(logging.CRITICAL)  # nbclient logs what is raised as well
    return logger
