"""Namespaces of its own for a process that was forked inside a bubblewrap sandbox.

What bubblewrap makes for a program that it executes, made again one level further in, so that what
the process has imported is not lost to an exec. The system stays the one that bubblewrap mounted,
read-only. New are the process, network, IPC and host name namespaces, and with them /proc, /tmp,
/dev/shm and /dev/pts. The process keeps its rights over them, and no others, to make the same again
around each rank (`hpml.ranks.supervisor.rank_wall`): no answer runs in it.

See namespaces(7), user_namespaces(7), mount(2), and bubblewrap.c of bubblewrap 0.8.
"""

import ctypes
import errno
import os
import re
import resource
from collections.abc import Mapping, Sequence

from hpml.network.emulation import libc_call, loopback_up

NOBODY = 65534

# sched.h
_NEW_MOUNTS, _NEW_CGROUP, _NEW_HOST_NAME, _NEW_IPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
_NEW_USER, _NEW_PIDS, _NEW_NETWORK = 0x10000000, 0x20000000, 0x40000000
# sys/mount.h
_READ_ONLY, _NO_SUID, _NO_DEVICES, _NO_EXEC, _REMOUNT = 1, 2, 4, 8, 32
_BIND, _MOVE, _RECURSIVE, _PRIVATE, _DETACH = 4096, 8192, 16384, 1 << 18, 2

# Under root, the nobody inside is root to the kernel, which owns these files in /proc.
_COVERED = ("sys", "sysrq-trigger", "irq", "bus")

_libc = ctypes.CDLL(None, use_errno=True)


def leave() -> None:
    """Leave all namespaces but the user's; what is forked next is process 1 in the new ones."""
    libc_call("unshare", _NEW_MOUNTS | _NEW_HOST_NAME | _NEW_IPC | _NEW_PIDS | _NEW_NETWORK)
    _libc.unshare(_NEW_CGROUP)  # not in every kernel; bubblewrap tries as well


def close(disk: int, limits: Mapping[str, int]) -> None:
    """Make the rest of the wall around this process, the first that was forked after `leave`.

    `disk` is the size in bytes of /tmp, and of /dev/shm; `limits` are those of setrlimit(2), named
    as prlimit(1) names them. Raises OSError where the kernel refuses something.
    """
    os.setsid()
    libc_call("mount", None, b"/", None, _RECURSIVE | _PRIVATE, None)
    own_folders(disk)
    settings = b"/proc/sys/net"  # of the process's network namespace: a supervisor makes links
    libc_call("mount", settings, settings, None, _BIND, None)
    writable = _REMOUNT | _BIND | _NO_SUID | _NO_DEVICES | _NO_EXEC
    libc_call("mount", None, settings, None, writable, None)
    loopback_up()
    for name, value in limits.items():
        which = getattr(resource, f"RLIMIT_{name.upper()}")
        _, most = resource.getrlimit(which)
        value = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(which, (value, value))
    os.chdir("/tmp")


def own_folders(disk: int, shared: Sequence[str] = ()) -> None:
    """A new /tmp, /dev/shm, /proc and /dev/pts in this process's own mount namespace.

    `shared` are folders in the old /tmp that are in the new one too.
    """
    # The old /tmp and /dev/shm are taken away, not covered. The new /tmp is made beside the old,
    # for what is mounted below that: a checkout or its interpreter may be in /tmp.
    size = f"size={disk},mode=0755".encode()
    flags = _NO_SUID | _NO_DEVICES
    libc_call("umount2", b"/dev/shm", _DETACH)
    libc_call("mount", b"tmpfs", b"/dev/shm", b"tmpfs", flags, size)
    os.mkdir("/dev/shm/tmp")
    libc_call("mount", b"tmpfs", b"/dev/shm/tmp", b"tmpfs", flags, size)
    for path in (*mounted_below("/tmp"), *shared):
        _bind(path, f"/dev/shm{path}")
    libc_call("umount2", b"/tmp", _DETACH)
    libc_call("mount", b"/dev/shm/tmp", b"/tmp", None, _MOVE, None)
    os.rmdir("/dev/shm/tmp")
    # While the old one can still be seen, without which the kernel refuses
    os.mkdir("/tmp/proc")
    flags = _NO_SUID | _NO_DEVICES | _NO_EXEC
    libc_call("mount", b"proc", b"/tmp/proc", b"proc", flags, None)
    libc_call("umount2", b"/proc", _DETACH)
    libc_call("mount", b"/tmp/proc", b"/proc", None, _MOVE, None)
    os.rmdir("/tmp/proc")
    for name in _COVERED:
        path = f"/proc/{name}".encode()
        if os.path.exists(path):
            libc_call("mount", path, path, None, _BIND, None)
            libc_call("mount", None, path, None, _REMOUNT | _BIND | _READ_ONLY | flags, None)
    libc_call("umount2", b"/dev/pts", _DETACH)
    terminals = b"newinstance,ptmxmode=0666,mode=620"
    libc_call("mount", b"devpts", b"/dev/pts", b"devpts", _NO_SUID | _NO_EXEC, terminals)


def cover(files: Sequence[str]) -> None:
    """Let this process's own mount namespace have an empty file in place of each of these, which
    nobody without rights may open."""
    if not files:
        return
    empty = "/dev/shm/empty"
    os.close(os.open(empty, os.O_CREAT | os.O_EXCL, 0))
    for path in files:
        libc_call("mount", os.fsencode(empty), os.fsencode(path), None, _BIND, None)
    os.unlink(empty)


def mounted_below(folder: str) -> list[str]:
    """The topmost mount points below `folder`. Raises OSError if something there can be written."""
    found: list[str] = []
    with open("/proc/self/mountinfo", "rb") as lines:
        mounts = [line.split()[4:6] for line in lines]
    for escaped, options in sorted(mounts):
        # A space, a tab, a newline and a backslash are written as three octal digits.
        path = os.fsdecode(re.sub(rb"\\(\d{3})", lambda code: bytes([int(code[1], 8)]), escaped))
        if not path.startswith(f"{folder}/"):
            continue
        if b"ro" not in options.split(b","):
            raise OSError(errno.EPERM, f"submissions would share {path}, which can be written")
        if not any(path.startswith(f"{above}/") for above in found):
            found.append(path)
    return found


def _bind(path: str, there: str) -> None:
    """Show `path`, and what is mounted below, at `there` as well."""
    if os.path.isdir(path):
        os.makedirs(there)
    else:
        os.makedirs(os.path.dirname(there), exist_ok=True)
        open(there, "x").close()
    libc_call("mount", os.fsencode(path), os.fsencode(there), None, _BIND | _RECURSIVE, None)


def become_nobody() -> None:
    """Move to a user namespace of this process's own, with no rights over any other namespace."""
    user, group = os.getuid(), os.getgid()
    libc_call("unshare", _NEW_USER)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{NOBODY} {user} 1"),
        ("gid_map", f"{NOBODY} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
