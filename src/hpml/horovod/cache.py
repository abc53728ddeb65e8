"""The wheels that were built and verified here, each in a folder named by its flavour's key.

A folder appears whole or not at all. A build holds the lock.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from hpml.horovod.flavour import Flavour

_FACTS = "built.json"
_WORK = "building-"
_override: Path | None = None


def folder() -> Path:
    """HPML_CACHE, or else hpml in the user's cache folder; it may not exist yet."""
    if _override is not None:
        return _override
    named = os.environ.get("HPML_CACHE")
    if named:
        return Path(named).expanduser().absolute() / "horovod"
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "hpml" / "horovod"


@contextlib.contextmanager
def using(place: Path) -> Iterator[None]:
    """Use another cache folder inside the `with` block."""
    global _override
    before, _override = _override, place
    try:
        yield
    finally:
        _override = before


def find(flavour: Flavour) -> Path | None:
    """The wheel of this flavour, if there is one and its checksum is right."""
    entry = folder() / flavour.key
    try:
        facts = json.loads((entry / _FACTS).read_text())
        wheel = entry / facts["wheel"]
        whole = _digest(wheel) == facts["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return wheel if whole else None


def shortfalls(flavour: Flavour) -> list[str]:
    """What did not work when the wheel of this flavour was verified, a line each."""
    return json.loads((folder() / flavour.key / _FACTS).read_text())["less"]


def store(flavour: Flavour, wheel: Path, shortfalls: Sequence[str] = ()) -> Path:
    """Keep a verified wheel in place of an earlier one of its flavour; returns its path."""
    entry = folder() / flavour.key
    with tempfile.TemporaryDirectory(prefix=_WORK, dir=folder()) as name:
        fresh = Path(name) / "entry"
        fresh.mkdir()
        shutil.copy2(wheel, fresh / wheel.name)
        facts = {
            "wheel": wheel.name,
            "sha256": _digest(wheel),
            "less": list(shortfalls),
            "flavour": asdict(flavour),
        }
        (fresh / _FACTS).write_text(json.dumps(facts, indent=2) + "\n")
        if entry.exists():
            entry.rename(Path(name) / "old")
        fresh.rename(entry)
    return entry / wheel.name


def remove(flavour: Flavour) -> None:
    """Delete the wheel of this flavour."""
    shutil.rmtree(folder() / flavour.key, ignore_errors=True)


@contextlib.contextmanager
def locked(on_wait: Callable[[], None]) -> Iterator[None]:
    """One build at a time; `on_wait` is called if this one has to wait.

    Removes what a killed build has left. On a file system without locks builds run side by side,
    in folders of their own. Raises OSError where the folder cannot be made.
    """
    folder().mkdir(parents=True, exist_ok=True)
    with (folder() / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            yield
            return
        for left in folder().glob(f"{_WORK}*"):
            shutil.rmtree(left, ignore_errors=True)
        yield


@contextlib.contextmanager
def work_folder() -> Iterator[Path]:
    """A temporary folder to build in."""
    with tempfile.TemporaryDirectory(prefix=_WORK, dir=folder()) as name:
        yield Path(name)


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
