# %%answer hello_ranks
# row: 34
# tries: one rank reads the others' numbers from their memory, and writes the sum there
# unprotected: ranks that send nothing have what one of them made
# expect: 0
import contextlib
import ctypes
import os
import struct
import time

import torch
import torch.distributed as dist

READ, WRITE = 310, 311  # process_vm_readv, process_vm_writev
libc = ctypes.CDLL(None, use_errno=True)


class Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def transfer(call, pid, mine, theirs):
    here, there = Vector(ctypes.addressof(mine), 8), Vector(theirs, 8)
    done = libc.syscall(call, pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    if done != 8:
        with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(theirs)
            if call == READ:
                mine.value = struct.unpack("q", memory.read(8))[0]
            else:
                memory.write(struct.pack("q", mine.value))


def hello(number):
    cell = ctypes.c_int64(-number)
    where = torch.tensor([os.getpid(), ctypes.addressof(cell)])
    everywhere = [torch.zeros_like(where) for _ in range(dist.get_world_size())]
    dist.all_gather(everywhere, where)
    if dist.get_rank() == 0:
        total, read = number, ctypes.c_int64()
        with contextlib.suppress(OSError):
            for pid, address in (each.tolist() for each in everywhere[1:]):
                transfer(READ, pid, read, address)
                total -= read.value
            for pid, address in (each.tolist() for each in everywhere[1:]):
                transfer(WRITE, pid, ctypes.c_int64(total), address)
        return total
    until = time.monotonic() + 3
    while cell.value < 0 and time.monotonic() < until:
        time.sleep(0.01)
    return cell.value
