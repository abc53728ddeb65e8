"""Start a framework's script as its users would, end it in time, compare it with the serial one.

A script is one of this folder, by its name without .py, or any other by its path. Each process has
one thread. A script's last line is its result (`task.report`).
"""

import contextlib
import difflib
import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpml.errors import UserError
from hpml.frameworks import task
from hpml.network.emulation import address
from hpml.ranks import flavour

HERE = Path(__file__).parent
SERIAL = {"torch": "serial_torch", "keras": "serial_keras"}
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_USE_LEGACY_KERAS": "1",
}


@dataclass(frozen=True)
class Outcome:
    """A script's result: ranks, steps, images/s, accuracy."""

    ranks: int
    steps: int
    images_per_second: float  # of all ranks together
    accuracy: float  # of the test images, in [0, 1]


def source(script: str | Path) -> str:
    """The text of a script."""
    return _path(script).read_text()


def _path(script: str | Path) -> Path:
    return script if isinstance(script, Path) else HERE / f"{script}.py"


def changes(serial: str, distributed: str) -> list[str]:
    """The lines that differ between two scripts, as a diff has them, without their docstrings."""
    before, after = (source(name).splitlines()[2:] for name in (serial, distributed))
    lines = difflib.unified_diff(before, after, n=0, lineterm="")
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def lines_of_code(difference: Sequence[str]) -> int:
    """How many lines of the new script are not in the old one; empty ones do not count."""
    return sum(line.startswith("+") and len(line) > 1 for line in difference)


def missing(script: str | Path) -> str:
    """What a script needs and this machine lacks; empty if nothing."""
    script = _path(script).stem
    if script.startswith("horovod"):
        lacking = flavour.missing("horovod-tensorflow" if "keras" in script else "horovod")
        return lacking or ""
    if script.startswith("mesh_tensorflow"):
        lacking = [m for m in ("tensorflow", "mesh_tensorflow") if not importlib.util.find_spec(m)]
        return f"{lacking[0]} is not installed: pip install mesh-tensorflow" if lacking else ""
    needs = {"keras": ("tensorflow", "tf_keras"), "lightning": ("lightning",)}
    for word, modules in needs.items():
        for module in modules if word in script else ():
            if importlib.util.find_spec(module) is None:
                return f"{module} is not installed: ./hpml doctor says how to get it"
    return ""


def run(
    script: str | Path,
    ranks: int = 1,
    limit: float = 180.0,
    *,
    images: int = task.IMAGES,
    epochs: int = task.EPOCHS,
    batch: int = task.BATCH,
    environment: Mapping[str, str] | None = None,
) -> Outcome:
    """Train by a script on `ranks` processes of this machine; all have ended when this returns.

    All ranks together see `images` training images in each of `epochs`, each rank `batch` of them
    in a step. `environment` is added to theirs. Raises UserError as `told` does.
    """
    amounts = {"HPML_IMAGES": str(images), "HPML_EPOCHS": str(epochs), "HPML_BATCH": str(batch)}
    return Outcome(**told(script, ranks, limit, environment={**amounts, **(environment or {})}))


def told(
    script: str | Path,
    ranks: int = 1,
    limit: float = 180.0,
    *,
    controller: str = "gloo",
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The record that a script printed with `task.tell`.

    Horovod's ranks are started by horovodrun, or, with "mpi" for the `controller`, by mpirun.

    Raises UserError, with the first error printed, when they fail or take longer than `limit`
    seconds.
    """
    name = _path(script).stem
    if lacking := missing(script):
        raise UserError(f"{name}: {lacking}")
    with tempfile.TemporaryDirectory(prefix="hpml-frameworks-") as folder:
        logs, processes = [], []
        try:
            for number, (command, own) in enumerate(_commands(_path(script), ranks, controller)):
                logs.append(Path(folder) / f"{number}.log")
                # Their own temporary folder: torchrun leaves files behind
                own = {"TMPDIR": folder, **own, **(environment or {})}
                processes.append(start(command, own, logs[-1]))
            codes = _wait(processes, time.monotonic() + limit)
        finally:
            for process in processes:
                end(process)
        said = "\n".join(log.read_text(errors="replace") for log in logs)
    results = [line.partition(task.RESULT)[2] for line in said.splitlines() if task.RESULT in line]
    if codes.count(0) < len(codes) or not results:
        late = "failed" if any(codes) or None not in codes else f"was not done after {limit:.0f} s"
        raise UserError(f"{name} on {ranks} ranks {late}: {first_error(said)}")
    return json.loads(results[-1])


def first_error(said: str) -> str:
    """The first error that a rank printed; launchers print much more after it."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [
        line for line in lines if re.search(r"^(\[\d+\]<stderr>:)?[\w.]+(Error|Exception):", line)
    ]
    return (errors or lines[-1:] or ["it said nothing"])[0]


def _commands(
    script: Path, ranks: int, controller: str
) -> list[tuple[list[str], Mapping[str, str]]]:
    """What to start, and what to add to its environment."""
    path, name = str(script), script.stem
    python = [sys.executable, path]
    if name.startswith("ddp"):
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        return [([*torchrun, f"--nproc-per-node={ranks}", path], {})]
    if name.startswith("horovod") and ranks > 1:  # a single process needs no launcher
        if controller == "mpi":
            mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(ranks)]
            return [([*mpirun, *python], {"HOROVOD_CPU_OPERATIONS": "mpi"})]
        options = ["--gloo", "-np", str(ranks), "-H", f"localhost:{ranks}"]
        return [([horovodrun(), *options, *python], {})]
    if name.startswith("multi_worker"):
        workers = [f"127.0.0.1:{port}" for port in _free_ports(ranks)]
        return [(python, {"TF_CONFIG": tf_config(workers, rank)}) for rank in range(ranks)]
    return [(python, {})]


def horovodrun() -> str:
    """Horovod's launcher, of this Python's environment."""
    beside = Path(sys.executable).with_name("horovodrun")
    return str(beside) if beside.exists() else shutil.which("horovodrun") or "horovodrun"


def tf_config(workers: Sequence[str], rank: int) -> str:
    """The TF_CONFIG of worker `rank`: JSON with every worker's "address:port" and its index."""
    own = {"type": "worker", "index": rank}
    return json.dumps({"cluster": {"worker": list(workers)}, "task": own})


def set_tf_config(rank: int, world_size: int) -> None:
    """Set TF_CONFIG on a rank that `hpml.ranks` started without a process group.

    Each worker listens on its rank's address, where a network is emulated, or else on this machine.
    """
    port = int(os.environ["MASTER_PORT"])
    emulated = os.environ.get("MASTER_ADDR") == address(0)
    hosts = [address(worker) if emulated else "127.0.0.1" for worker in range(world_size)]
    workers = [f"{host}:{port + number}" for number, host in enumerate(hosts)]
    os.environ["TF_CONFIG"] = tf_config(workers, rank)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def start(command: Sequence[str], environment: Mapping[str, str], log: Path) -> subprocess.Popen:
    """Start `command` in a session of its own, with one thread; its output goes to `log`."""
    with log.open("w") as file:
        return subprocess.Popen(
            command,
            env={**os.environ, **ONE_THREAD, **environment},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _wait(processes: Sequence[subprocess.Popen], deadline: float) -> list[int | None]:
    """Exit codes; None for a process still running. Returns early when one has failed."""
    while time.monotonic() < deadline:
        codes = [process.poll() for process in processes]
        if None not in codes or any(codes):
            return codes
        time.sleep(0.05)
    return [process.poll() for process in processes]


def end(process: subprocess.Popen) -> None:
    """Kill the process, its session and its descendants."""
    import psutil

    left = []
    if process.poll() is None:
        try:
            left = psutil.Process(process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            left = []
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for child in left:  # horovodrun's are in sessions of their own
        try:
            child.kill()
        except psutil.NoSuchProcess:
            continue
    process.wait(10)
