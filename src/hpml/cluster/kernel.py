"""Namespaces and mounts by system call: what `os` has only from Python 3.12 on, or never."""

import ctypes
import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

# sched.h
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000

_BIND = 4096  # sys/mount.h
_libc = ctypes.CDLL(None, use_errno=True)


def unshare(kinds: int) -> None:
    """Move this process to new namespaces of those kinds (unshare(2))."""
    _call("unshare", kinds)


def enter_network(descriptor: int) -> None:
    _call("setns", descriptor, CLONE_NEWNET)


def mount(kind: str, target: str | Path, options: str = "") -> None:
    """An empty file system of that kind (tmpfs, proc) at `target`."""
    _call("mount", kind.encode(), os.fsencode(target), kind.encode(), 0, options.encode())


def bind(source: str | Path, target: str | Path) -> None:
    """Show the folder or file `source` at `target` too (mount(2), MS_BIND)."""
    _call("mount", os.fsencode(source), os.fsencode(target), None, _BIND, None)


def own_folder(folder: Path, kept: Sequence[Path] = ()) -> None:
    """An empty `folder` of this mount namespace's own, in memory; folders `kept` below it stay."""
    with ExitStack() as opened:
        sources = []
        for path in kept:
            sources.append(os.open(path, os.O_PATH))  # still reachable once the mount hides it
            opened.callback(os.close, sources[-1])
        mount("tmpfs", folder, "mode=1777")
        for path, source in zip(kept, sources, strict=True):
            path.mkdir(parents=True, exist_ok=True)
            bind(f"/proc/self/fd/{source}", path)


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
