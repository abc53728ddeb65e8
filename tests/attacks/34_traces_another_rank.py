# %%answer hello_ranks
# row: 34
# tries: one rank attaches to the others as a debugger does, and sets a word of their memory
# unprotected: ranks that send nothing have what one of them made
# expect: 0
import contextlib
import ctypes
import os
import time

import torch
import torch.distributed as dist

PEEK, POKE, SEIZE, INTERRUPT, DETACH = 1, 4, 0x4206, 0x4207, 17
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
libc.ptrace.restype = ctypes.c_long


@contextlib.contextmanager
def held(pid):
    if libc.ptrace(SEIZE, pid, None, None):
        raise OSError(ctypes.get_errno(), "ptrace")
    libc.ptrace(INTERRUPT, pid, None, None)
    os.waitpid(pid, 0x40000000)  # __WALL
    try:
        yield
    finally:
        libc.ptrace(DETACH, pid, None, None)


def hello(number):
    cell = ctypes.c_int64(-number)
    where = torch.tensor([os.getpid(), ctypes.addressof(cell)])
    everywhere = [torch.zeros_like(where) for _ in range(dist.get_world_size())]
    dist.all_gather(everywhere, where)
    others = [each.tolist() for each in everywhere[1:]]
    if dist.get_rank() == 0:
        total = number
        with contextlib.suppress(OSError):
            for pid, address in others:
                with held(pid):
                    total -= libc.ptrace(PEEK, pid, address, None)
            for pid, address in others:
                with held(pid):
                    libc.ptrace(POKE, pid, address, total)
        return total
    until = time.monotonic() + 3
    while cell.value < 0 and time.monotonic() < until:
        time.sleep(0.01)
    return cell.value
