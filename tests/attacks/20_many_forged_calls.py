# %%answer hello_ranks
# row: 20
# tries: reports two hundred thousand calls, each at odds with the other ranks'
# unprotected: comparing them all, at each call anew, takes for ever
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
        for index in range(1, 200_000):
            call = [index, f"all_reduce{number}", [99], 1, "float32", [number], 8, "", None]
            event = ["call", *call, time.monotonic()]
            out.sendall(msgpack.packb(event, use_bin_type=True))
    time.sleep(3600)
