# %%answer hello_ranks
# row: 20
# tries: reports calls in groups that do not exist, of ranks that do not exist, and waits for them
# unprotected: the search for what is wrong fails, and with it the grader
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
    out = channel()
    for index, what in enumerate(("all_reduce", "send", "recv", "recv_anysource"), 1):
        call = [index, what, [7, 99, -1], 2**40, "float32", [2], 8, "to nobody", None]
        os.write(out, msgpack.packb(["call", *call, time.monotonic()], use_bin_type=True))
        os.write(out, msgpack.packb(["wait", index, time.monotonic()], use_bin_type=True))
    time.sleep(3600)
