"""Whether an ordinary process may make namespaces of its own (man 7 namespaces).

Found out by trying: the kernel's build, sysctl, AppArmor and the container may each forbid it.
"""

import subprocess
import sys

FLAGS = {"user": 0x10000000, "net": 0x40000000}  # CLONE_NEWUSER, CLONE_NEWNET of sched.h

_TRY = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
flags, user, group = int(sys.argv[1]), os.getuid(), os.getgid()
if libc.unshare(flags) != 0:
    sys.exit(os.strerror(ctypes.get_errno()))
maps = {"setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}
for name, text in maps.items() if flags & 0x10000000 else ():
    try:
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    except OSError as error:  # some systems give a user namespace without its rights
        sys.exit(f"{name} cannot be written: {error.strerror}")
"""


def refusal(*kinds: str, timeout: float = 10.0) -> str | None:
    """Why namespaces of `kinds` ("user", "net") cannot be made together; None where they can.

    A child process tries, so that this one stays where it is.
    """
    flags = sum(FLAGS[kind] for kind in kinds)
    return trial(_TRY, str(flags), timeout=timeout)


def trial(code: str, *arguments: str, timeout: float) -> str | None:
    """Run `code` in a Python process: the last line it prints if it fails, None if it does not."""
    command = [sys.executable, "-c", code, *arguments]
    try:
        tried = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if tried.returncode == 0:
        return None
    last = tried.stderr.strip().splitlines()[-1:]
    return last[0] if last else f"ended with {tried.returncode}"
