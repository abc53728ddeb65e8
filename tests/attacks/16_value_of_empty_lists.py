# %%answer hello_ranks
# row: 16
# tries: returns, in the ranks' encoding, sixty million empty lists, a byte each
# unprotected: the grader runs out of memory when it decodes them
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


COUNT = 60_000_000


def hello(number):
    head = b"\x92\xa5value\xc6" + (COUNT + 5).to_bytes(4, "big")
    with socket.socket(fileno=os.dup(channel())) as out:
        out.sendall(head + b"\xdd" + COUNT.to_bytes(4, "big"))
        for _ in range(60):
            out.sendall(b"\x90" * 1_000_000)
    time.sleep(60)
