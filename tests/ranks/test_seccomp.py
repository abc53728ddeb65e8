"""The filter of system calls: what it refuses, in a child process, and what it lets through."""

import ctypes
import errno
import fcntl
import os
import platform
import struct
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


@pytest.mark.parametrize("refused", [False, True])
def test_a_rank_that_has_a_proxy_locks_no_file_as_a_whole(refused, tmp_path):
    """The others meet by PyTorch's FileStore, which does."""
    file = (tmp_path / "file").open("wb")

    def work():
        seccomp.install(flock=refused)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except PermissionError:
            return 1
        return 0

    assert in_a_child(work) == int(refused)


@pytest.mark.parametrize("command", [fcntl.F_SETLK, fcntl.F_SETLKW, 37, 38])
def test_a_file_is_not_locked(command, tmp_path):
    """Record locks of a process, and those of an open file (37 and 38): ranks would meet there."""
    file = (tmp_path / "file").open("wb")
    lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)

    def work():
        if fcntl.fcntl(file, command, lock) is None:
            return 1
        seccomp.install()
        if fcntl.fcntl(file, fcntl.F_GETFL) & os.O_WRONLY == 0:  # all else is let through
            return 2
        try:
            fcntl.fcntl(file, command, lock)
        except PermissionError:
            return 0
        return 3

    assert in_a_child(work) == 0


@pytest.mark.parametrize(("command", "before"), [(1024, errno.EAGAIN), (1026, errno.ENOTDIR)])
def test_a_file_has_no_lease_and_nobody_is_told_of_its_changes(command, before, tmp_path):
    """F_SETLEASE and F_NOTIFY, with arguments that change nothing."""
    file = (tmp_path / "file").open("wb")

    def ended() -> int:
        try:
            fcntl.fcntl(file, command, fcntl.F_UNLCK if command == 1024 else 0x2)
        except OSError as error:
            return error.errno or 0
        return 0

    def work():
        first = ended()
        seccomp.install()
        return 0 if (first, ended()) == (before, errno.EPERM) else 1

    assert in_a_child(work) == 0


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


@pytest.mark.parametrize("refused", [False, True])
def test_no_program_is_executed_where_that_is_asked_for(refused):
    def work():
        seccomp.install(programs=refused)
        return os.spawnv(os.P_WAIT, "/bin/sh", ["sh", "-c", "exit 3"])

    assert in_a_child(work) == (127 if refused else 3)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "riscv64"])
def test_numbers_are_known_for_two_machines(machine):
    names = set(seccomp.refused(machine))
    x86 = set(seccomp.refused("x86_64"))
    assert names == {"x86_64": x86, "aarch64": x86 - {"inotify_init"}, "riscv64": set()}[machine]
    assert len(set(seccomp.refused(machine).values())) == len(names)
