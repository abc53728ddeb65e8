import os
import socket
import stat
import sys
import time  # noqa: F401  (those built on it sleep)

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
