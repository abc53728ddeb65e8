"""The command line of bubblewrap around a warm server, and what is to be seen inside."""

import os
import sys
from pathlib import Path

import hpml
from hpml.paths import CHECKOUT

# What ranks import of this package. Nothing in it knows an expected value.
SEEN = ("__init__.py", "answer", "errors.py", "network", "ranks")
SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SETTINGS = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives")


def words(user: int, capabilities: str, disk: int) -> list[str]:
    """bwrap for a program that is run as `user`, with /tmp and /dev/shm of `disk` bytes."""
    line = [
        *("bwrap", "--unshare-user", "--unshare-all", "--die-with-parent", "--new-session"),
        # The host's name is an address, since no other name means anything in there.
        *("--uid", str(user), "--gid", str(user), "--hostname", "127.0.0.1", capabilities, "ALL"),
        # The server is the first process inside: nothing there can stop, end or trace it, and no
        # process of bubblewrap's own is there, for an answer to live on in from launch to launch.
        "--as-pid-1",
        *("--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev"),
        # To the kernel the nobody inside is who grades: with root, one who may change its settings.
        # A network namespace has settings of its own, which ranks with a link write.
        *("--ro-bind", "/proc/sys", "/proc/sys", "--bind", "/proc/sys/net", "/proc/sys/net"),
        *("--ro-bind-try", "/proc/sysrq-trigger", "/proc/sysrq-trigger"),
    ]
    for path in map(Path, SYSTEM):
        if path.is_symlink():
            line += ["--symlink", os.readlink(path), str(path)]
        elif path.exists():
            line += ["--ro-bind", str(path), str(path)]
    for setting in SETTINGS:
        line += ["--ro-bind-try", setting, setting]
    for folder in ("/tmp", "/dev/shm"):
        line += ["--size", str(disk), "--tmpfs", folder]
    line += _interpreter()
    for folder in ("/dev", "/"):  # these are in memory as well, and of no limited size
        line += ["--remount-ro", folder]
    return [*line, "--chdir", "/tmp", "--"]


def _interpreter() -> list[str]:
    """What shows the interpreter with its packages, and of this project only what ranks need.

    Whatever of the project or of a home lies inside the interpreter's folders is covered first.
    """
    package = Path(hpml.__file__).resolve().parent
    prefixes = [Path(p).resolve() for p in dict.fromkeys((sys.base_prefix, sys.prefix))]
    line = []
    for prefix in prefixes:
        if not prefix.is_relative_to("/usr"):
            line += ["--ro-bind", str(prefix), str(prefix)]
    mounted = [Path("/usr"), *prefixes]
    for hidden in (CHECKOUT, package, Path.home()):
        if any(hidden.is_relative_to(prefix) and hidden != prefix for prefix in mounted):
            line += ["--tmpfs", str(hidden)]
            for prefix in prefixes:
                if prefix.is_relative_to(hidden):
                    line += ["--ro-bind", str(prefix), str(prefix)]
    for name in SEEN:
        line += ["--ro-bind", str(package / name), str(package / name)]
    return line


def environment() -> dict[str, str]:
    """All that a program inside finds in its environment."""
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "TMPDIR": "/tmp",
        "PYTHONPATH": str(Path(hpml.__file__).resolve().parents[1]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
