"""What the suite keeps between runs, in the user's cache folder: it saves time, and proves nothing.

    facts.json   what each source names, by its hash (import_graph.py)
    turns.json   of what is played in turn: the key with which each last passed, and when
    times.json   seconds of each test, and whether it started a process
    luck.json    the last runs of the whole suite, and which tests passed in them at the second try
    runs/        runs of right answers, by their key

Without it everything is played. Several suites may run at the same time.
"""

import contextlib
import fcntl
import json
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hpml.files import atomic
from hpml.horovod import cache

AGAIN = "HPML_TESTS_AGAIN"  # set where failed tests are tried again
RUNS = 2**31  # bytes; when there are more, the oldest half goes
LARGEST = 2**26  # bytes of one run


def folder() -> Path:
    """`tests` beside Horovod's wheels: HPML_CACHE, or hpml in the user's cache folder."""
    return cache.folder().parent / "tests"


def read(name: str) -> Any:
    """The value of a file of `folder`; an empty dictionary where there is none that can be read."""
    try:
        return json.loads((folder() / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


@contextlib.contextmanager
def changing(name: str) -> Iterator[dict[str, Any]]:
    """The value of a file, to be changed in the block; it is written when the block ends well.

    One process at a time. Where nothing can be written the change is lost.
    """
    with contextlib.ExitStack() as stack:
        try:
            folder().mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context(open(folder() / f".{name}.lock", "w"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:
            yield read(name)
            return
        value = read(name)
        yield value
        with contextlib.suppress(OSError):
            atomic.write_bytes(folder() / name, json.dumps(value).encode())


def once(key: str, make: Callable[[], Any]) -> Any:
    """The value that was made for this key before, on this machine; else `make()`, which is kept.

    The key must hold all that the value depends on. A value that cannot be pickled, or is too
    large, is made each time. Where a test is tried once more it is made anew: the one that is kept
    may be what was unlucky.
    """
    path = folder() / "runs" / f"{key}.pickle"
    try:
        if AGAIN in os.environ:
            raise LookupError
        value = pickle.loads(path.read_bytes())
        path.touch()
        return value
    except Exception:  # not asked for, not there, cut off, or of a class that has changed its place
        value = make()
    with contextlib.suppress(OSError, pickle.PicklingError, AttributeError, TypeError):
        data = pickle.dumps(value)
        if len(data) <= LARGEST:
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic.write_bytes(path, data)
    return value


def tidy() -> None:
    """Remove the runs that were not asked for longest, where they have become too many bytes."""
    with contextlib.suppress(OSError):
        there = [(p.stat().st_mtime, p.stat().st_size, p) for p in folder().glob("runs/*.pickle")]
        if sum(size for _, size, _ in there) > RUNS:
            for _, _, path in sorted(there)[: len(there) // 2]:
                path.unlink(missing_ok=True)
