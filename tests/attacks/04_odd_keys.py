# %%answer hello_ranks
# row: 4
# tries: returns a dict with bytes for keys, half a character, and a tensor without elements
# unprotected: a judge that sorts or prints them raises
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
    value = {b"loss": 1, b"\xed\xa0\x80": msgpack.ExtType(1, msgpack.packb(["bool", [0], b""]))}
    event = ["value", msgpack.packb(value)]
    os.write(channel(), msgpack.packb(event, use_bin_type=True))
    time.sleep(60)
