"""The filter of system calls: what it refuses, in a child process, and what it lets through."""

import ctypes
import errno
import os
import platform
import sys

import pytest

from hpml.ranks.supervisor import seccomp

pytestmark = pytest.mark.skipif(
    not seccomp.refused(), reason=f"the system calls of {platform.machine()} are not known"
)


def in_a_child(work) -> int:
    """The exit code of a forked process in which `work` returned it."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def outcome(number: int) -> int:
    """The error number of a system call with arguments that mean nothing."""
    libc = ctypes.CDLL(None, use_errno=True)
    ctypes.set_errno(0)
    libc.syscall(number, -1, -1, -1, -1, -1, -1)
    return ctypes.get_errno()


@pytest.mark.parametrize("name", sorted(seccomp.refused()))
def test_what_takes_hold_of_another_process_is_refused(name):
    number = seccomp.refused()[name]

    def work():
        seccomp.install()
        return outcome(number)

    assert in_a_child(work) == errno.EPERM


def test_without_the_filter_those_calls_are_there():
    """Else the test above would pass on a kernel that refuses them anyway."""
    found = [in_a_child(lambda n=n: outcome(n)) for n in seccomp.refused().values()]
    assert found.count(errno.EPERM) < len(found) / 2


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x86-64 has two more interfaces")
def test_the_same_calls_by_another_interface_are_refused():
    x32_getpid = 0x40000000 + 39

    def work():
        seccomp.install()
        return outcome(x32_getpid)

    assert in_a_child(work) == errno.EPERM


def test_a_process_works_on_with_all_that_it_starts():
    def work():
        seccomp.install()
        read, write = os.pipe()
        if os.fork() == 0:
            os.write(write, b"%d" % outcome(seccomp.refused()["ptrace"]))
            os._exit(0)
        inherited = int(os.read(read, 8)) == errno.EPERM
        ended = os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", "import json"])
        return 0 if inherited and ended == 0 else 1

    assert in_a_child(work) == 0


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "riscv64"])
def test_numbers_are_known_for_two_machines(machine):
    names = set(seccomp.refused(machine))
    assert names == (set(seccomp.refused("x86_64")) if machine != "riscv64" else set())
    assert len(set(seccomp.refused(machine).values())) == len(names)
