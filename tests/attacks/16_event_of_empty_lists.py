# %%answer hello_ranks
# row: 16
# tries: sends one event of a hundred million empty lists, a byte each, that take 64 in memory
# unprotected: the grader runs out of memory
# expect: 0
import os
import socket
import stat


def channel():
    """The descriptor of the channel on which this rank reports to its supervisor."""
    for fd in range(3, 200):
        try:
            if not stat.S_ISSOCK(os.fstat(fd).st_mode):
                continue
            with socket.socket(fileno=os.dup(fd)) as found:
                if found.family == socket.AF_UNIX:
                    return fd
        except OSError:
            continue
    raise RuntimeError("no channel")


def hello(number):
    with socket.socket(fileno=os.dup(channel())) as out:
        out.sendall(b"\xdd\x3f\xff\xff\xff")
        while True:
            out.sendall(b"\x90" * 2**20)
