"""Record hung jobs: what py-spy, the log and the flight recorder have of them, as they wrote it.

    python -m hpml.modules.m06_torch_distributed.checks._record_hung_jobs

It starts `_hung_job.py` by torchrun, on 4 ranks of which rank 2 does not come, and writes
`_hung_jobs.json`. It takes some minutes. Only folders' names and process ids are replaced.
"""

import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).with_name("_hung_job.py")
RECORDING = Path(__file__).with_name("_hung_jobs.json")
RANKS, CULPRIT = 4, 2
START, END = 120.0, 60.0  # seconds: for the start up to the hang; for what follows it
# name: call, why, further options, environment
JOBS: dict[str, tuple[str, str, tuple[str, ...], dict[str, str]]] = {
    "file": ("all_reduce", "file", (), {}),
    "loader": ("all_gather", "loader", (), {}),
    "computes": ("all_to_all_single", "computes", (), {}),
    "elsewhere": ("barrier", "elsewhere", (), {}),
    "raises": ("all_reduce", "raises", (), {}),
    "monitored": ("monitored_barrier", "file", (), {}),
    "detail": ("all_reduce", "elsewhere", (), {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}),
    "later": ("all_reduce", "file", ("--later",), {"TORCH_FR_BUFFER_SIZE": "100"}),
    "later_gather": ("all_gather", "loader", ("--later",), {"TORCH_FR_BUFFER_SIZE": "100"}),
}
ENDS = ("monitored", "detail")  # these jobs end by themselves: with an error


def record(name: str) -> dict[str, Any]:
    """One job's dumps, logs and flight recorder's traces, by rank. Leaves no process.

    Raises RuntimeError if the job does not hang, or does not end, in time.
    """
    call, why, more, environment = JOBS[name]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        shutil.copy(SCRIPT, path / "train.py")
        if more:
            more = (*more, "--recorder", folder)
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS)]
        command += ["--redirects", "3", "--log-dir", str(path / "logs"), "train.py"]
        command += ["--call", call, "--why", why, "--culprit", str(CULPRIT), *more]
        torchrun = subprocess.Popen(
            command,
            cwd=path,
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            return _recorded(name, path, torchrun, bool(more))
        finally:
            for group in {torchrun.pid, *_pids(path).values()}:
                if _alive(group):
                    os.killpg(os.getpgid(group), signal.SIGKILL)
            torchrun.wait()


def _recorded(
    name: str, path: Path, torchrun: subprocess.Popen[bytes], recorder: bool
) -> dict[str, Any]:
    stacks: dict[int, str] = {}
    if name != "detail":
        _until(lambda: len(_steps(path)) == RANKS, START)
        time.sleep(3)  # from the last step that all have ended to the place where they hang
        stacks = {rank: _stack(pid) for rank, pid in _pids(path).items()}
    if name in ENDS:
        _until(lambda: torchrun.poll() is not None, START + END)
    traces: dict[int, Any] = {}
    if recorder:
        (path / "now").touch()
        _until(lambda: len(list(path.glob("trace*"))) == RANKS, END)
        for rank in range(RANKS):
            traces[rank] = pickle.loads((path / f"trace{rank}").read_bytes())
    logs = {rank: log.read_text() for rank, log in _logs(path, "stderr.log").items()}
    found = {"call": JOBS[name][0], "why": JOBS[name][1], "stacks": stacks, "logs": logs}
    text = json.dumps({**found, "traces": traces})
    places = {
        sysconfig.get_paths()["purelib"]: "/home/ada/.venv/lib/python3.11/site-packages",
        sys.executable: "/home/ada/.venv/bin/python",
        str(path): "/home/ada",
    }
    for place, other in places.items():
        text = text.replace(place, other)
    text = re.sub(r"/[^ ()\"']*/(lib/python3\.\d+/|bin/python3)", r"/usr/\1", _kept(text))
    return json.loads(_kept(text, back=True))


def _kept(text: str, back: bool = False) -> str:
    """Keeps what is in /home/ada out of the replacement of the interpreter's own folders."""
    pair = ("/home/ada/.venv/", "<venv>")
    return text.replace(*(pair[::-1] if back else pair))


def _logs(path: Path, name: str) -> dict[int, Path]:
    return {int(log.parent.name): log for log in path.glob(f"logs/*/attempt_0/*/{name}")}


def _steps(path: Path) -> list[Path]:
    """Ranks' outputs that have the last step that ends."""
    return [log for log in _logs(path, "stdout.log").values() if "step 2" in log.read_text()]


def _pids(path: Path) -> dict[int, int]:
    """The ranks' processes: those that run in the folder and have a rank, by rank."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "cwd") != str(path):
                continue
            if b"torch.distributed.run" in (process / "cmdline").read_bytes():
                continue
            variables = (process / "environ").read_bytes().split(b"\0")
            parent = int((process / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if b"torch.distributed.run" not in Path(f"/proc/{parent}/cmdline").read_bytes():
                continue  # a worker of a DataLoader
            ranks = [int(v[5:]) for v in variables if v.startswith(b"RANK=")]
            found.update({rank: int(process.name) for rank in ranks})
        except (OSError, ValueError):
            continue  # has ended
    return dict(sorted(found.items()))


def _stack(pid: int) -> str:
    """What `py-spy dump --pid` prints."""
    command = [str(Path(sys.executable).with_name("py-spy")), "dump", "--pid", str(pid)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def _alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def _until(happens: Callable[[], bool], limit: float) -> None:
    end = time.monotonic() + limit
    while not happens():
        if time.monotonic() > end:
            raise RuntimeError(f"not within {limit:.0f} s")
        time.sleep(0.2)


def _text(recording: Mapping[str, Mapping[str, Any]]) -> str:
    """As JSON, with a line for each kind of thing that was recorded of a job."""
    jobs = []
    for name, job in recording.items():
        lines = [f'  "{key}": {json.dumps(job[key], ensure_ascii=False)}' for key in job]
        jobs.append(f' "{name}": {{\n' + ",\n".join(lines) + "\n }")
    return "{\n" + ",\n".join(jobs) + "\n}\n"


if __name__ == "__main__":
    recording = json.loads(RECORDING.read_text()) if RECORDING.exists() else {}
    for job in sys.argv[1:] or JOBS:
        recording[job] = record(job)
        RECORDING.write_text(_text(recording), encoding="utf-8")
        print(job, flush=True)
