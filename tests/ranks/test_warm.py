"""The handle on a warm server: what it waits for when it ends one."""

import subprocess
import sys

import psutil
import pytest

from hpml.ranks.parent import warm


@pytest.fixture
def start():
    """Starts a child that runs some Python; it is ended when the test is."""
    children = []

    def start(code: str) -> psutil.Process:
        children.append(subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE))
        return psutil.Process(children[-1].pid)

    yield start
    for child in children:
        child.kill()
        child.communicate(timeout=10)


def test_the_dead_are_not_waited_for_although_nobody_asked_how_they_ended(start):
    child = start("pass")
    warm._wait_until_dead([child], 60.0)
    assert child.status() == psutil.STATUS_ZOMBIE  # its parent, this process, can still ask


def test_who_lives_is_waited_for_up_to_the_limit(start):
    child = start("input()")
    warm._wait_until_dead([child], 0.1)
    assert child.status() != psutil.STATUS_ZOMBIE
