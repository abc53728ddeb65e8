"""Whether a process gets anywhere, by what the kernel says of all its threads."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from hpml.ranks.parent import movement

# Its main thread waits for good in each case; another thread does what is said.
PROGRAM = """
import threading, time
def spin():
    while True: pass
def doze():
    time.sleep(600)
def wait():
    threading.Event().wait()
threading.Thread(target={thread}, daemon=True).start()
print("there", flush=True)
threading.Event().wait()
"""


def settled(look: Callable[[], bool], busy: bool) -> set[bool]:
    """What twenty looks see, once they all see `busy`: else what the last of 500 twenties saw.

    At first the threads are still on their way to where they spin or wait, and hand Python's lock
    to each other: one thread is read while it waits for it, then another that has just given it.
    """
    for _ in range(500):
        seen = {look() for _ in range(20)}
        if seen == {busy}:
            break
    return seen


@pytest.mark.skipif(sys.platform != "linux", reason="threads are seen on Linux only")
@pytest.mark.parametrize(("thread", "busy"), [("spin", True), ("doze", True), ("wait", False)])
def test_any_thread_that_goes_on_keeps_a_process_busy(thread, busy):
    program = [sys.executable, "-c", PROGRAM.format(thread=thread)]
    with subprocess.Popen(program, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"there\n"
            seen = settled(lambda: movement.is_busy(process.pid), busy)
        finally:
            process.kill()
    assert seen == {busy}
    assert not movement.is_busy(process.pid)  # it is gone


@pytest.mark.skipif(sys.platform != "linux", reason="states are seen on Linux only")
def test_a_child_that_wants_a_processor_keeps_its_parent_busy_where_asked():
    spins = [sys.executable, "-c", "while True: pass"]
    waits = (
        f"import subprocess; p = subprocess.Popen({spins!r}); print(p.pid, flush=True); p.wait()"
    )
    with subprocess.Popen([sys.executable, "-c", waits], stdout=subprocess.PIPE) as process:
        child = int(process.stdout.readline())
        try:
            assert settled(lambda: movement.is_busy(process.pid), False) == {False}
            assert movement.is_busy(process.pid, with_children=True)
        finally:
            os.kill(child, signal.SIGKILL)
    assert not movement.is_busy(process.pid, with_children=True)
