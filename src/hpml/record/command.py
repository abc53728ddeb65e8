"""The command line: each measurement in a process of its own, with a limit; what is kept, stays."""

import argparse
import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from hpml.errors import DONE, FAILED, UserError
from hpml.paths import CHECKOUT
from hpml.record import kept, plan
from hpml.record.plan import Measurement

LIMIT = 540.0  # seconds, of all together
LEAST = 10.0  # seconds: with less left, none is begun
SLOWER = 3  # a CPU's work is smaller, and takes longer all the same
OUTPUT = 40  # lines kept of a measurement that failed
# With -S where this process has it: then a measurement has no other packages either.
CHILD = (sys.executable, *["-S"] * sys.flags.no_site, "-m", "hpml.record.one")


def main(arguments: Sequence[str] | None = None, program: str = "hpml record") -> int:
    """Record; returns the exit code, FAILED where a measurement did not end well.

    Raises UserError for bad usage.
    """
    parser = _Parser(
        prog=program,
        description="Measure what this machine shows, a GPU above all, and keep it in small files. "
        "Started again, it goes on with what is not kept yet.",
        allow_abbrev=False,
    )
    names = ", ".join(one.name for one in plan.PLAN)
    parser.add_argument("--out", default="recorded", metavar="DIR", help="where to keep it")
    parser.add_argument(
        "--limit", type=float, default=LIMIT, metavar="SECONDS", help="of all (default: 540)"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help=f"of {names}")
    parser.add_argument("--again", action="store_true", help="also what is kept already")
    parser.add_argument(
        "--device", default="auto", choices=("auto", "cpu", "cuda"), help="auto: a GPU if there is"
    )
    parser.add_argument(
        "--images", metavar="PLACE", help="folder with CIFAR-10, or a file that --pack has made"
    )
    parser.add_argument(
        "--pack", metavar="FILE", help="only write the images to one file, for another machine"
    )
    asked = parser.parse_args(arguments)
    if asked.pack:
        from hpml.record import images

        print(images.pack(asked.images, Path(asked.pack)))
        return DONE
    try:
        measurements = plan.chosen(asked.only)
    except KeyError as error:
        raise UserError(f"--only: {error.args[0]!r} is none of {names}") from None
    if asked.limit < LEAST:
        raise UserError(f"--limit is {asked.limit:g}, expected at least {LEAST:g} seconds")
    device, gpus = _device(asked.device)
    images_at = None
    if asked.images:
        from hpml.record import images

        images_at = str(images.folder(asked.images))
    folder = Path(asked.out).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    # No path of this machine goes into a file that is handed on.
    only = f" --only {' '.join(asked.only)}" if asked.only else ""
    command = f"hpml record --device {device}{only}"
    print(f"{kept.describe(device)['name']}: at most {asked.limit:.0f} s, kept in {folder}")
    until, ended_well = time.monotonic() + asked.limit, True
    for number, one in enumerate(measurements, 1):
        head = f"{number}/{len(measurements)} {one.name}"
        if not asked.again and (date := _date(folder, one.name)):
            print(f"{head}: kept, of {date}")
            continue
        if why := lacking(one, gpus):
            print(f"{head}: left out: {why}")
            continue
        left = until - time.monotonic()
        if left < LEAST:
            print(f"{head}: no time left: the same command again goes on here")
            ended_well = False
            continue
        print(f"{head}: {one.finds}", flush=True)
        began = time.monotonic()
        limit = one.limit if gpus else SLOWER * one.limit
        failed = run(one, folder, device, min(limit, left), command, images_at)
        took = f"{time.monotonic() - began:.0f} s"
        print(f"    failed after {took}: {failed}" if failed else f"    done in {took}", flush=True)
        ended_well = ended_well and not failed
    return DONE if ended_well else FAILED


def lacking(one: Measurement, gpus: int) -> str:
    """Why a measurement cannot be made here, in words; "" where it can."""
    missing = [name for name in one.needs if importlib.util.find_spec(name) is None]
    if missing:
        return f"it needs {', '.join(missing)}, and Python finds no such module"
    if one.solutions and not (CHECKOUT / "solutions").is_dir():
        return "it plays the solutions, which are not here"
    if gpus and gpus < one.gpus:
        return f"it needs {one.gpus} GPUs, and {gpus} is here"
    return ""


def run(
    one: Measurement,
    folder: Path,
    device: str,
    limit: float,
    command: str,
    images: str | None,
) -> str:
    """Make a measurement in a session of its own, ended after `limit` seconds; what it
    prints is shown. Returns why it failed, which is kept in the record's place, with what it had
    found so far; "" if it ended well.
    """
    call = [*CHILD, one.name, "--out", str(folder), "--device", device, "--command", command]
    call += ["--images", images] if images else []
    kept.so_far(folder, one.name).unlink(missing_ok=True)  # of a record that was stopped
    began = time.monotonic()
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        process = subprocess.Popen(call, stderr=errors, start_new_session=True)
        try:
            code = process.wait(limit)
            why = "" if code == 0 else f"it ended with exit code {code}"
        except subprocess.TimeoutExpired:
            why = f"it was not done after {limit:.0f} s"
        finally:
            _end(process.pid)
            process.wait()
        noted = kept.so_far(folder, one.name)
        found = json.loads(noted.read_text()) if noted.exists() else None
        noted.unlink(missing_ok=True)
        if not why:
            return ""
        errors.seek(0)
        output = kept.without_places(errors.read()).rstrip().splitlines()[-OUTPUT:]
    if "exit code" in why and output:
        why = output[-1]
    seconds = time.monotonic() - began
    kept.write(
        folder,
        one.name,
        command=command,
        device=device,
        seconds=seconds,
        failed=why,
        output=output,
        so_far=found,
    )
    return why


def _end(session: int) -> None:
    """End all processes of a session: a job script's are in a group of their own."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getsid(int(entry.name)) == session:
                os.kill(int(entry.name), signal.SIGKILL)


def _device(asked: str) -> tuple[str, int]:
    """ "cuda" or "cpu", and how many GPUs there are."""
    import torch

    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if asked == "cuda" and not gpus:
        raise UserError("--device is cuda, and PyTorch sees no GPU here: use --device cpu")
    return ("cpu", 0) if asked == "cpu" or not gpus else ("cuda", gpus)


def _date(folder: Path, name: str) -> str:
    try:
        return kept.read(folder, name).date
    except (FileNotFoundError, UserError):
        return ""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(f"{self.prog}: {message}; see {self.prog} --help")
