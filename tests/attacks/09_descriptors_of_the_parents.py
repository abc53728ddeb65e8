# %%answer hello_ranks
# tries: takes the descriptors of the processes above it, to speak to the grader in their name
# unprotected: it reports to the grader whatever it wants, for all ranks
import contextlib
import ctypes
import os

PIDFD_OPEN, PIDFD_GETFD = 434, 438
libc = ctypes.CDLL(None, use_errno=True)


def hello(number):
    taken = []
    for name in os.listdir("/proc"):
        if not name.isdecimal() or int(name) == os.getpid():
            continue
        status = open(f"/proc/{name}/stat").read().rsplit(")", 1)[1].split()
        if int(status[1]) == os.getppid():
            continue  # another rank, which runs this same answer
        with contextlib.suppress(OSError):
            taken += [os.readlink(f"/proc/{name}/fd/{fd}") for fd in os.listdir(f"/proc/{name}/fd")]
        pidfd = libc.syscall(PIDFD_OPEN, int(name), 0)
        taken += [fd for fd in range(64) if libc.syscall(PIDFD_GETFD, pidfd, fd, 0) >= 0]
    if taken:
        raise SystemError(f"hpml-canary-read: descriptors {taken}")
    return number
