# %%answer hello_ranks
# row: 7
# tries: reports calls whose names are markup, at odd times and of impossible sizes
# unprotected: the drawing of what the ranks did breaks, or runs a script
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
    bad = "</text></svg><script>pwned()</script>\x1b[2J"
    for index in range(1, 50):
        call = [index, bad * 40, [0, 1, 99], -(2**62), bad, [-1] * 50, -1, bad, 2**62]
        os.write(out, msgpack.packb(["call", *call, time.monotonic()], use_bin_type=True))
        os.write(out, msgpack.packb(["mark", bad, time.monotonic()], use_bin_type=True))
    return number
