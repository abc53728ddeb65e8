"""The wheels that were built and verified here, each in a folder named by its flavour's key.

A folder appears whole or not at all. Whoever builds holds the lock.
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
_elsewhere: Path | None = None


def folder() -> Path:
    """HPML_CACHE, or else hpml in the user's cache folder; not made here."""
    if _elsewhere is not None:
        return _elsewhere
    named = os.environ.get("HPML_CACHE")
    if named:
        return Path(named).expanduser().absolute() / "horovod"
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "hpml" / "horovod"


@contextlib.contextmanager
def at(place: Path) -> Iterator[None]:
    """Another folder for a while."""
    global _elsewhere
    before, _elsewhere = _elsewhere, place
    try:
        yield
    finally:
        _elsewhere = before


def find(flavour: Flavour) -> Path | None:
    """The wheel of this flavour, where there is one and it is what was put there."""
    entry = folder() / flavour.key
    try:
        facts = json.loads((entry / _FACTS).read_text())
        wheel = entry / facts["wheel"]
        whole = _digest(wheel) == facts["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return wheel if whole else None


def less(flavour: Flavour) -> list[str]:
    """What was found wanting when the wheel of this flavour was verified."""
    return json.loads((folder() / flavour.key / _FACTS).read_text())["less"]


def put(flavour: Flavour, wheel: Path, less: Sequence[str] = ()) -> Path:
    """Keep a verified wheel; where it lies now. In place of an earlier one of its flavour."""
    entry = folder() / flavour.key
    with tempfile.TemporaryDirectory(prefix=_WORK, dir=folder()) as name:
        fresh = Path(name) / "entry"
        fresh.mkdir()
        shutil.copy2(wheel, fresh / wheel.name)
        facts = {
            "wheel": wheel.name,
            "sha256": _digest(wheel),
            "less": list(less),
            "flavour": asdict(flavour),
        }
        (fresh / _FACTS).write_text(json.dumps(facts, indent=2) + "\n")
        if entry.exists():
            entry.rename(Path(name) / "old")
        fresh.rename(entry)
    return entry / wheel.name


def forget(flavour: Flavour) -> None:
    """Throw the wheel of this flavour away."""
    shutil.rmtree(folder() / flavour.key, ignore_errors=True)


@contextlib.contextmanager
def locked(on_wait: Callable[[], None]) -> Iterator[None]:
    """One build at a time; `on_wait` is called where another one is at work.

    Removes what a killed one has left. On a file system without locks everyone goes ahead: they
    build in folders of their own. Raises OSError where the folder cannot be made.
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
    """A folder to build in, which is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix=_WORK, dir=folder()) as name:
        yield Path(name)


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
