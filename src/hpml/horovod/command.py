"""Run a program to its end or its time limit, and leave nothing of it behind."""

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import psutil

PATIENCE = 5.0  # seconds between SIGTERM and SIGKILL
_POLL = 0.2  # seconds without output until the process is polled


def run(
    command: Sequence[str | Path],
    *,
    limit: float,
    log: Path,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    on_line: Callable[[str], None] = lambda line: None,
) -> int:
    """The exit status of `command`. What it prints is appended to `log`, and each line is passed to
    `on_line`; an empty line while it prints nothing.

    After `limit` seconds, and on any exception here (an interrupt), it is ended with every process
    that it has started. Raises TimeoutError after the limit, OSError where it cannot be started.
    """
    with log.open("ab") as kept:
        kept.write(f"$ {' '.join(map(str, command))}\n".encode())
        kept.flush()
        # An interrupt inside of Popen would leave a process that nobody knows of.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
        try:
            process = subprocess.Popen(
                list(map(str, command)),
                cwd=folder,
                env=dict(environment) if environment is not None else None,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before),
            )
        except OSError:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            raise
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)  # and here it is raised
            for line in _lines(process, limit):
                kept.write(line)
                kept.flush()
                on_line(line.decode(errors="replace").rstrip())
            return process.wait()
        except TimeoutError as error:
            kept.write(f"{error}\n".encode())
            raise
        finally:
            end(process)
            process.stdout.close()  # type: ignore[union-attr]  # a pipe


def _lines(process: subprocess.Popen, limit: float) -> Iterator[bytes]:
    """The lines it prints until it ends; b"" for each pause without a line."""
    assert process.stdout is not None  # a pipe
    deadline, rest = time.monotonic() + limit, b""
    while True:
        ended = process.poll() is not None  # polled first, so that no output is missed
        if time.monotonic() > deadline:
            raise TimeoutError(f"no end after {limit:.0f} s")
        if select.select([process.stdout], [], [], 0 if ended else _POLL)[0]:
            chunk = os.read(process.stdout.fileno(), 1 << 16)
            if not chunk:
                break
            *lines, rest = (rest + chunk).split(b"\n")
            yield from (line + b"\n" for line in lines)
        elif ended:  # do not wait for others that still hold its output
            break
        else:
            yield b""
    if rest:
        yield rest + b"\n"
    process.wait(max(0.0, deadline - time.monotonic()) + PATIENCE)


def end(process: subprocess.Popen) -> None:
    """End a process and all that it has started, those in sessions of their own too."""
    known = []
    with contextlib.suppress(psutil.NoSuchProcess):
        if process.poll() is None:
            known = psutil.Process(process.pid).children(recursive=True)
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)
    for child in known:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()  # psutil notices a pid that was reused
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)  # the group lives as long as any member
    process.wait()
