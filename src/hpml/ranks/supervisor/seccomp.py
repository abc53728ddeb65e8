"""A filter of system calls by which a process takes hold of another, or of what all share.

Ranks in a sandbox run the same answer, which may want one of them to report for all. Refused are
tracing, reading and writing another process's memory, taking its descriptors, the kernel's key
rings (which outlive a launch), and ways round the filter: io_uring, and the system calls of other
instruction sets. Refused are also file locks and leases, and looks at which pages of a file the
kernel holds, by which ranks would reach each other beside their network; and watches of files: all
submissions of a user share the kernel's number of them.

See seccomp(2), and the kernel's Documentation/userspace-api/seccomp_filter.rst. The numbers are
those of asm/unistd_64.h and asm-generic/unistd.h.
"""

import ctypes
import errno
import os
import platform
import sys

# By machine: audit architecture of linux/audit.h, system calls by number
_REFUSED = {
    "x86_64": (
        0xC000003E,
        {
            "mincore": 27,
            "ptrace": 101,
            "add_key": 248,
            "request_key": 249,
            "keyctl": 250,
            "inotify_init": 253,
            "inotify_init1": 294,
            "perf_event_open": 298,
            "fanotify_init": 300,
            "process_vm_readv": 310,
            "process_vm_writev": 311,
            "kcmp": 312,
            "bpf": 321,
            "preadv2": 327,
            "userfaultfd": 323,
        },
    ),
    "aarch64": (
        0xC00000B7,
        {
            "inotify_init1": 26,
            "ptrace": 117,
            "add_key": 217,
            "request_key": 218,
            "keyctl": 219,
            "mincore": 232,
            "perf_event_open": 241,
            "fanotify_init": 262,
            "process_vm_readv": 270,
            "process_vm_writev": 271,
            "kcmp": 272,
            "bpf": 280,
            "preadv2": 286,
            "userfaultfd": 282,
        },
    ),
}
# The same number on both
_NEWER = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "cachestat": 451,
}
_FCNTL = {0xC000003E: 72, 0xC00000B7: 25}  # by architecture
_FLOCK = {0xC000003E: (73,), 0xC00000B7: (32,)}
_EXECUTE = {0xC000003E: (59, 322), 0xC00000B7: (221, 281)}  # execve, execveat
# fcntl's second argument: F_SETLK, F_SETLKW, those of open files, F_SETLEASE, F_NOTIFY
_LOCKS = (6, 7, 37, 38, 1024, 1026)
_OTHER_INTERFACE = 0x40000000  # bit of the x32 system calls' numbers

# linux/filter.h, linux/seccomp.h: load a word of struct seccomp_data, compare, return
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _SECOND = 0, 4, 24  # offsets in struct seccomp_data, a call's arguments too
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000


_libc = ctypes.CDLL(None, use_errno=True)


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("if_true", ctypes.c_uint8),
        ("if_false", ctypes.c_uint8),
        ("operand", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("first", ctypes.POINTER(_Instruction)))


def refused(machine: str | None = None) -> dict[str, int]:
    """The refused system calls and their numbers on `machine`; empty where they are not known."""
    known = _REFUSED.get(machine or platform.machine())
    return {} if known is None or sys.platform != "linux" else {**known[1], **_NEWER}


def install(*, flock: bool = False, programs: bool = False) -> None:
    """Refuse those calls (EPERM) to this process, for good, and to all that it starts; with `flock`
    that one too, by which PyTorch's FileStore lets ranks meet that have no proxies; with `programs`
    those that execute one.

    Does nothing on a machine whose numbers are not known. Raises OSError where the kernel has no
    such filters.
    """
    numbers = list(refused().values())
    if not numbers:
        return
    architecture, _ = _REFUSED[platform.machine()]
    numbers += [*(_FLOCK[architecture] if flock else ())]
    numbers += [*(_EXECUTE[architecture] if programs else ())]
    steps = _program(architecture, numbers)
    program = _Program(len(steps), (_Instruction * len(steps))(*steps))
    pr_set_no_new_privs, pr_set_seccomp, mode_filter = 38, 22, 2
    if _libc.prctl(pr_set_no_new_privs, 1, 0, 0, 0) or _libc.prctl(
        pr_set_seccomp, mode_filter, ctypes.byref(program), 0, 0
    ):
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp: {os.strerror(number)}")


def _program(architecture: int, numbers: list[int]) -> list[_Instruction]:
    """The filter's instructions. Jumps count from the next one; the last one refuses."""
    last = len(numbers) + len(_LOCKS) + 7
    steps = [
        _Instruction(_LOAD, 0, 0, _ARCHITECTURE),
        _Instruction(_EQUAL, 0, last - 2, architecture),
        _Instruction(_LOAD, 0, 0, _NUMBER),
        _Instruction(_ANY_BIT, last - 4, 0, _OTHER_INTERFACE),
    ]
    for number in numbers:
        steps.append(_Instruction(_EQUAL, last - len(steps) - 1, 0, number))
    steps.append(_Instruction(_EQUAL, 0, len(_LOCKS) + 1, _FCNTL[architecture]))
    steps.append(_Instruction(_LOAD, 0, 0, _SECOND))
    for command in _LOCKS:
        steps.append(_Instruction(_EQUAL, last - len(steps) - 1, 0, command))
    steps.append(_Instruction(_RETURN, 0, 0, _ALLOW))
    steps.append(_Instruction(_RETURN, 0, 0, _FAIL | errno.EPERM))
    return steps
