"""Waiting for what other processes do."""

import time
from collections.abc import Callable
from typing import Any

import psutil


def until(there: Callable[[], Any], what: str, patience: float = 240.0) -> Any:
    """What `there` returns once it is true."""
    limit = time.monotonic() + patience
    while not (found := there()):
        assert time.monotonic() < limit, f"waited {patience:g} s for {what} in vain"
        time.sleep(0.05)
    return found


def has_ended(pid: int) -> bool:
    """Whether the process has ended; the process that has to reap it may not have done so yet."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def gone(pid: int, limit: float = 10.0) -> bool:
    """Whether the process ends within `limit` seconds."""
    deadline = time.monotonic() + limit
    while not has_ended(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return has_ended(pid)
