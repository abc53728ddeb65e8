# %%answer hello_ranks
# tries: fills pipes as large as they can be, until its user has no more pages for any
# unprotected: every other pipe of that user shrinks to a page, and who waits for it may hang
import fcntl
import os
import time


def hello(number):
    kept = []
    try:
        while len(kept) < 400:
            read, write = os.pipe2(os.O_NONBLOCK)
            kept.append((read, write))
            for size in (2**20, 2**18, 2**16):
                try:
                    os.write(write, bytes(fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, size)))
                    break
                except OSError:
                    continue
    except OSError:
        pass
    time.sleep(12)
    return number
