# %%answer hello_ranks
# row: 16
# tries: returns a gigabyte, byte by byte as small as it can be made in its own process
# unprotected: four ranks' gigabytes, and their copies, fill the grader's memory
# expect: 0
import os
import socket
import stat
import time


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


SIZE = 2**30 - 100


def hello(number):
    head = b"\x92\xa5value\xc6" + (SIZE + 5).to_bytes(4, "big")
    with socket.socket(fileno=os.dup(channel())) as out:
        out.sendall(head + b"\xc6" + SIZE.to_bytes(4, "big"))
        for _ in range(1024):
            out.sendall(bytes(2**20))
    time.sleep(60)
