"""Single keys of a terminal, without Enter, and its settings as they were before."""

import copy
import os
import re
import select
import termios
from collections.abc import Iterator
from contextlib import contextmanager

# What arrows and the like send
_SEQUENCE = re.compile(rb"\x1b(?:\[[0-9;]*[A-Za-z~]|O.)?")


def are_ours(fd: int) -> bool:
    """Whether `fd` is a terminal whose keys are for this process: not one in the background."""
    if not os.isatty(fd):
        return False
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:  # not of our session: the check's server has it from a client, which asked
        return True


@contextmanager
def put_back(fd: int) -> Iterator[None]:
    """The terminal's settings are afterwards what they were, whoever changed them inside."""
    if not are_ours(fd):
        yield
        return
    before = termios.tcgetattr(fd)
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSANOW, before)


@contextmanager
def single(fd: int) -> Iterator[bool]:
    """Inside, each key arrives at once and is not shown. False where there are no keys for us.

    Ctrl-C is what it always is. Ctrl-Z is nothing: a check's server would go on reading keys that
    are then the shell's.
    """
    if not are_ours(fd):
        yield False
        return
    with put_back(fd):
        settings = copy.deepcopy(termios.tcgetattr(fd))
        settings[3] &= ~(termios.ICANON | termios.ECHO)
        settings[6][termios.VMIN], settings[6][termios.VTIME] = 1, 0
        settings[6][termios.VSUSP] = b"\0"
        termios.tcsetattr(fd, termios.TCSANOW, settings)
        yield True


def pressed(fd: int) -> str:
    """The keys that were pressed and not read yet; "q" where the terminal is gone."""
    if not select.select([fd], [], [], 0)[0]:
        return ""
    try:
        data = os.read(fd, 64)
    except OSError:
        return "q"
    if not data:
        return "q"
    return _SEQUENCE.sub(b"", data).decode(errors="ignore")
