"""The command line of bubblewrap around a warm server, and which files are visible inside."""

import os
import sys
from pathlib import Path

import hpml
from hpml.answer.rules import MACHINERY
from hpml.paths import CHECKOUT

SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SETTINGS = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives")


def words(user: int, capabilities: str, disk: int) -> list[str]:
    """The bwrap command for a program run as `user`, with /tmp and /dev/shm of `disk` bytes."""
    line = [
        *("bwrap", "--unshare-user", "--unshare-all", "--die-with-parent", "--new-session"),
        # The hostname is an address, since no name can be resolved inside.
        *("--uid", str(user), "--gid", str(user), "--hostname", "127.0.0.1", capabilities, "ALL"),
        # The server is process 1 inside: no process there can stop, end or trace it. Nor is there a
        # process of bubblewrap's own in which an answer could survive from launch to launch.
        "--as-pid-1",
        *("--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev"),
        # To the kernel, the user inside is the grader's: if that is root, it could write sysctls.
        # A network namespace has sysctls of its own, which ranks with a link write.
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
    shown, covers = _interpreter()
    line += shown
    for folder in (*covers, "/dev", "/"):  # these are in memory too, without a size limit
        line += ["--remount-ro", folder]
    return [*line, "--chdir", "/tmp", "--"]


def _interpreter() -> tuple[list[str], list[str]]:
    """The mounts that show the interpreter, its packages, and of this project what ranks need.

    Parts of the project or of a home inside the interpreter's folders are covered first; second
    come the folders that do so.
    """
    package = Path(hpml.__file__).resolve().parent
    prefixes = [Path(p).resolve() for p in dict.fromkeys((sys.base_prefix, sys.prefix))]
    line: list[str] = []
    covers: list[str] = []
    for prefix in prefixes:
        if not prefix.is_relative_to("/usr"):
            line += ["--ro-bind", str(prefix), str(prefix)]
    mounted = [Path("/usr"), *prefixes]
    for hidden in (CHECKOUT, package, Path.home()):
        if any(hidden.is_relative_to(prefix) and hidden != prefix for prefix in mounted):
            line += ["--tmpfs", str(hidden)]
            covers.append(str(hidden))
            for prefix in prefixes:
                if prefix.is_relative_to(hidden):
                    line += ["--ro-bind", str(prefix), str(prefix)]
    for name in MACHINERY:
        line += ["--ro-bind", str(package / name), str(package / name)]
    return line, covers


def environment() -> dict[str, str]:
    """The whole environment of a program inside."""
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "TMPDIR": "/tmp",
        "PYTHONPATH": str(Path(hpml.__file__).resolve().parents[1]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
