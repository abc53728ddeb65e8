# %%answer hello_ranks
# row: 16
# tries: mounts memory file systems without a limit in a namespace of its own, and fills them
# unprotected: a limit on /tmp does not hold there
# expect: 0
import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
NEW_USER_AND_MOUNTS = 0x10000000 | 0x00020000


def hello(number):
    user = os.getuid()
    if libc.unshare(NEW_USER_AND_MOUNTS) == 0:
        with open("/proc/self/uid_map", "w") as file:
            file.write(f"0 {user} 1")
        os.makedirs("/tmp/own", exist_ok=True)
        libc.mount(b"none", b"/tmp/own", b"tmpfs", 0, b"size=100g")
        for index in range(10**6):
            with open(f"/tmp/own/{index}", "wb") as file:
                for _ in range(32):
                    file.write(b"x" * 2**20)
    return number
