# %%answer hello_ranks
# row: 4
# tries: sends a tensor of no bytes with a million dimensions of 2**63 - 1
# unprotected: multiplying them keeps the grader busy for hours
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
    tensor = msgpack.packb(["float32", [2**63 - 1] * 1_000_000, b""])
    event = ["value", msgpack.packb(msgpack.ExtType(1, tensor))]
    with socket.socket(fileno=os.dup(channel())) as out:
        out.sendall(msgpack.packb(event, use_bin_type=True))
    time.sleep(60)
