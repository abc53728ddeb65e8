# %%answer hello_ranks
# row: 14
# tries: reports marks without end over its channel
# unprotected: the grader keeps them all in memory
# expect: 0
import os
import socket
import stat
import sys
import time

msgpack = sys.modules.get("msgpack") or __import__("msgpack")


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
        while True:
            mark = msgpack.packb(["mark", "x", time.monotonic()], use_bin_type=True)
            out.sendall(mark * 10_000)
