"""What stays of a measurement: a small file of JSON, with the machine and the day; and its reader.

training.json                {"name", "date", "command", "device", "machine", "versions",
                              "seconds", "result"} or, in place of the last, "failed": why
steps_good.pt.trace.json.gz  a trace beside it, as TensorBoard names it, of at most a megabyte
"""

import json
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from hpml import __version__
from hpml.errors import UserError
from hpml.files import atomic
from hpml.machine.processor import processor
from hpml.paths import CHECKOUT, home
from hpml.record.plan import PLAN

OWN = "HPML_RECORDED"  # a site's own folder
SHIPPED = Path(__file__).resolve().parents[1] / "recorded"
LARGEST = 2**20  # bytes of a file
VERSIONS = ("torch", "numpy", "triton", "tensorflow", "horovod")


@dataclass(frozen=True)
class Place:
    """Where a measurement runs: "cuda" or "cpu", with files in `folder`, and CIFAR-10 in `images`
    (None: nothing was given)."""

    device: str
    folder: Path
    images: str | None = None
    name: str = ""  # of the measurement

    @property
    def gpu(self) -> bool:
        return self.device == "cuda"

    def so_far(self, result: Any) -> None:
        """Note what has been found: it is kept even where the measurement is cut off."""
        atomic.write_text(so_far(self.folder, self.name), json.dumps(result))


@dataclass(frozen=True)
class Recorded:
    """A measurement that ended well. `folder` has its file, and traces beside it."""

    name: str
    date: str  # "2026-11-26"
    device: Mapping[str, Any]
    machine: Mapping[str, Any]
    versions: Mapping[str, str]
    result: Mapping[str, Any]
    folder: Path
    own: bool  # the site's, not the course's

    @property
    def origin(self) -> str:
        """ "Recorded on one NVIDIA H100 80GB HBM3, 26 November 2026, torch 2.11.0"."""
        day = datetime.strptime(self.date[:10], "%Y-%m-%d")
        number = {1: "one ", 2: "two "}.get(self.device["count"], f"{self.device['count']} ")
        device = self.device["name"]
        if self.device["kind"] != "cpu":
            device = f"{number}{device}"
        return (
            f"Recorded on {device}, {day.day} {day:%B %Y}, torch {self.versions['torch']}"
            f"{', on this site' if self.own else ''}"
        )


def recorded(name: str) -> Recorded:
    """What was recorded under `name`: by the site, in HPML_RECORDED's folder, else by the course.

    Raises UserError, one line with the reason, where there is nothing, and where the site's file is
    damaged.
    """
    own = os.environ.get(OWN)
    for folder in [*([Path(own).expanduser()] if own else []), SHIPPED]:
        try:
            return read(folder, name)
        except FileNotFoundError:
            continue
    (gpus,) = [one.gpus for one in PLAN if one.name == name]
    needs = "a GPU" if gpus == 1 else f"{gpus} GPUs"
    nothing = f"{OWN} has no {name}.json that ended well" if own else "nothing of it was recorded"
    raise UserError(f"it needs {needs}, and {nothing}: ./hpml record does it there")


def read(folder: Path, name: str) -> Recorded:
    """The record in `folder`. Raises FileNotFoundError where there is none that ended well, and
    UserError where the file is damaged."""
    path = folder / f"{name}.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if "failed" in content:
            raise FileNotFoundError(path)
        return Recorded(
            name=content["name"],
            date=content["date"],
            device=content["device"],
            machine=content["machine"],
            versions=content["versions"],
            result=content["result"],
            folder=folder,
            own=folder != SHIPPED,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} is not a record of ./hpml record ({type(error).__name__}): delete it"
        ) from None


def write(
    folder: Path, name: str, *, command: str, device: str, seconds: float, **outcome: Any
) -> None:
    """Keep a measurement: its `result`, or why it `failed` and its last lines of `output`.

    Raises UserError where the file would be larger than a megabyte.
    """
    content = {
        "name": name,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": command,
        "device": describe(device),
        "machine": machine(),
        "versions": versions(),
        "seconds": round(seconds, 1),
        **outcome,
    }
    text = json.dumps(content, indent=1) + "\n"
    if len(text) > LARGEST:
        raise UserError(f"{name}.json would be {len(text):,} bytes, at most {LARGEST:,}")
    atomic.write_text(folder / f"{name}.json", text)


def so_far(folder: Path, name: str) -> Path:
    """Where a measurement notes what it has found before it is over."""
    return folder / f".{name}.so_far.json"


def without_places(text: str, *others: str) -> str:
    """`text` without this machine's folders: a file that is handed on names none of them."""
    places = {*others, *sys.path, sys.prefix, str(home()), str(CHECKOUT), str(Path.home())}
    for place in sorted(filter(None, places), key=len, reverse=True):
        text = text.replace(place, "…")
    return text


def describe(device: str) -> dict[str, Any]:
    """The device in words and numbers: of GPUs the first one's, and how many there are."""
    import torch

    if device != "cuda":
        return {"kind": "cpu", "name": processor(), "count": 0}
    one = torch.cuda.get_device_properties(0)
    return {
        "kind": "cuda",
        "name": one.name,
        "count": torch.cuda.device_count(),
        "memory": one.total_memory,
        "capability": f"{one.major}.{one.minor}",
        "multiprocessors": one.multi_processor_count,
        "cuda": torch.version.cuda or torch.version.hip,
        "nccl": _nccl(),
    }


def machine() -> dict[str, Any]:
    """Processor, cores that this process may use, system. No name of the machine."""
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.release()}",
    }


def versions() -> dict[str, str]:
    """Of Python, this course, and libraries that are installed."""
    found = {"python": platform.python_version(), "hpml": __version__}
    for name in VERSIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            if name in sys.modules:  # in a source tree's path, not installed
                found[name] = str(sys.modules[name].__version__)
    return found


def _nccl() -> str | None:
    try:
        import torch.cuda.nccl

        return ".".join(map(str, torch.cuda.nccl.version()))
    except (ImportError, AttributeError):
        return None
