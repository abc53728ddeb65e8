"""Namespaces and mounts, asked of the kernel: what os has only from Python 3.12 on, or never."""

import ctypes
import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

# sched.h
NEW_MOUNTS, NEW_HOSTNAME, NEW_IPC = 0x00020000, 0x04000000, 0x08000000
NEW_PIDS, NEW_NETWORK = 0x20000000, 0x40000000

_BIND = 4096  # sys/mount.h
_libc = ctypes.CDLL(None, use_errno=True)


def unshare(kinds: int) -> None:
    """This process leaves the namespaces of those kinds for new ones (unshare(2))."""
    _call("unshare", kinds)


def enter_network(descriptor: int) -> None:
    _call("setns", descriptor, NEW_NETWORK)


def mount(kind: str, target: str | Path, options: str = "") -> None:
    """An empty file system of that kind (tmpfs, proc) at `target`."""
    _call("mount", kind.encode(), os.fsencode(target), kind.encode(), 0, options.encode())


def bind(source: str | Path, target: str | Path) -> None:
    """What is at `source` is also at `target` from now on: a folder or a file."""
    _call("mount", os.fsencode(source), os.fsencode(target), None, _BIND, None)


def own_folder(folder: Path, kept: Sequence[Path] = ()) -> None:
    """An empty `folder` of this mount namespace's own, in memory; folders `kept` below it stay."""
    with ExitStack() as opened:
        sources = []
        for path in kept:
            sources.append(os.open(path, os.O_PATH))  # reached through it once it is covered
            opened.callback(os.close, sources[-1])
        mount("tmpfs", folder, "mode=1777")
        for path, source in zip(kept, sources, strict=True):
            path.mkdir(parents=True, exist_ok=True)
            bind(f"/proc/self/fd/{source}", path)


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
