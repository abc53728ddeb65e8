"""A try from outside: its processes started, followed, ended, and the outcome recorded."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psutil

from hpml.errors import UserError
from hpml.files.sanitize import one_line
from hpml.machine.resources import usable_cores
from hpml.train.race import tries
from hpml.train.race.goals import Goal
from hpml.train.race.switches import Switches
from hpml.train.race.tries import Point, Try

LOOKED = 0.3  # seconds in which other programs are counted
PATIENCE = 10.0  # seconds for processes to end when they are asked to
MODULE = "hpml.train.race.attempt"


def run_try(
    goal: Goal,
    switches: Switches | None = None,
    data: str | None = None,
    report: Callable[[Try], None] = lambda one: None,
) -> Try:
    """Try these switches (default: all off) and keep the outcome in the learner's file.

    `report` is called with the try as it stands when it begins and after each test. A try that is
    interrupted is kept as such, and KeyboardInterrupt goes on; one that fails, or takes longer than
    the goal's limit, is returned with its reason. Raises UserError where the file cannot be
    written.
    """
    switches = switches or goal.off
    one = Try(
        goal=goal.name,
        accuracy=goal.accuracy,
        switches=switches,
        cores=round(usable_cores(), 2),
        busy=round(psutil.cpu_percent(LOOKED) / 100, 2),
    )
    tries.append(one)
    try:
        with _started(goal, switches, data) as process:
            for event in _events(process.stdout):
                one = _after(one, event)
                if event["race"] != "failed":
                    report(one)
            code, late = process.wait(), process.late.is_set()
        if one.status == tries.BEGAN:
            one = _ended(one, code, late, goal, process.errors)
    except KeyboardInterrupt:
        one = replace(one, status=tries.INTERRUPTED) if one.status == tries.BEGAN else one
        raise
    finally:
        if one.status == tries.BEGAN:  # a fault of ours, which goes on from here
            one = replace(one, status=tries.FAILED, why="the race itself failed")
        tries.append(one)
    return one


class _Process(subprocess.Popen):
    """A try's processes. `late` is set when they took too long; `errors` is what they wrote."""

    late: threading.Event
    errors: str = ""


@contextmanager
def _started(goal: Goal, switches: Switches, data: str | None) -> Iterator[_Process]:
    """The processes of a try; none of them is there any more when the block is over."""
    command = [sys.executable, "-m"]
    if switches.ranks > 1:
        command += ["torch.distributed.run", "--standalone", f"--nproc-per-node={switches.ranks}"]
        command += ["-m"]
    command += [MODULE, str(goal.accuracy), *goal.training(), *switches.training()]
    command += [] if data is None else ["--data", data]
    with (
        tempfile.TemporaryDirectory(prefix="hpml-race-", ignore_cleanup_errors=True) as cache,
        tempfile.TemporaryFile() as errors,
    ):
        # What an earlier try compiled is not there: each pays for its own.
        environment = os.environ | {"OMP_NUM_THREADS": str(switches.threads)}
        environment |= {"TORCHINDUCTOR_CACHE_DIR": cache, "TRITON_CACHE_DIR": cache}
        environment["TMPDIR"] = cache  # torchrun leaves an empty folder there
        process = _Process(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
            start_new_session=True,  # Ctrl-C reaches this process alone, which ends them in order
        )
        process.late = threading.Event()
        clock = threading.Timer(goal.limit, _too_long, [process])
        clock.daemon = True
        clock.start()
        try:
            yield process
        finally:
            clock.cancel()
            _end(process)
            process.stdout.close()
            errors.seek(0)
            process.errors = errors.read().decode("utf-8", "replace")


def _too_long(process: _Process) -> None:
    process.late.set()
    _end(process)


def _end(process: subprocess.Popen) -> None:
    """Ask the processes to end, and then end them."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        try:
            os.killpg(process.pid, number)
            process.wait(PATIENCE)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


def _events(lines: Any) -> Iterator[dict[str, Any]]:
    """The events among the lines that the processes print."""
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and event.get("race") in ("began", "point", "failed"):
            yield event


def _after(one: Try, event: dict[str, Any]) -> Try:
    """The try once this has happened."""
    if event["race"] == "began":
        return replace(one, synthetic=event["synthetic"], device=event["device"])
    if event["race"] == "failed":
        if one.status == tries.FAILED:  # the first of several ranks knows why
            return one
        return replace(one, status=tries.FAILED, why=one_line(event["why"], 300))
    accuracy = event["accuracy"]
    point = Point(event["images"], event["seconds"], accuracy if accuracy == accuracy else 0.0)
    status = tries.REACHED if point.accuracy >= one.accuracy else one.status
    return replace(one, points=(*one.points, point), first_step=event["first_step"], status=status)


def _ended(one: Try, code: int, late: bool, goal: Goal, errors: str) -> Try:
    """A try whose processes have ended, and that neither reached its goal nor gave a reason."""
    if late:
        why = f"it was not over after {goal.limit:.0f} s"
        return replace(one, status=tries.FAILED, why=why)
    if code == 0 and one.points:
        return replace(one, status=tries.BELOW)
    last = [line for line in errors.splitlines() if line.strip()]
    why = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
    return replace(one, status=tries.FAILED, why=one_line(f"{why}: {last[-1]}" if last else why))


def check_ranks(switches: Switches) -> None:
    """Raise UserError where there are fewer GPUs than ranks: NCCL wants one for each."""
    if gpus() and switches.ranks > gpus():
        raise UserError(
            f"--ranks is {switches.ranks}, and this machine has {gpus()} GPU"
            f"{'s' * (gpus() > 1)}: each rank needs its own"
        )


def gpus() -> int:
    """How many GPUs torch sees; it is not imported where there can be none."""
    if not shutil.which("nvidia-smi"):
        return 0
    import torch

    return torch.cuda.device_count()
