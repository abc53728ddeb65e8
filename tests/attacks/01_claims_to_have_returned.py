# %%answer hello_ranks
# row: 1
# tries: reports on the rank's own channel that it returned, then exits with code 0
# unprotected: a grader that trusts a rank's report `returned` sees success
# expect: 0
import os
import socket
import stat
import sys

msgpack = sys.modules.get("msgpack") or __import__("msgpack")
encoding = sys.modules["hpml.ranks.encoding"]


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
    event = ["value", encoding.encode({"passed": True, "points": 2})]
    os.write(channel(), msgpack.packb(event, use_bin_type=True))
    os._exit(0)
