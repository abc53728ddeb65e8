import contextlib
import ctypes
import os
import time

import torch
import torch.distributed as dist

libc = ctypes.CDLL(None, use_errno=True)


def hello(number):
    """Rank 0 sets the numbers of the others, which wait for it, by `peek` and `poke`."""
    cell = ctypes.c_int64(-number)
    where = torch.tensor([os.getpid(), ctypes.addressof(cell)])
    everywhere = [torch.zeros_like(where) for _ in range(dist.get_world_size())]
    dist.all_gather(everywhere, where)
    others = [each.tolist() for each in everywhere[1:]]
    if dist.get_rank() == 0:
        total = number
        with contextlib.suppress(OSError):
            for pid, address in others:
                total -= peek(pid, address)
            for pid, address in others:
                poke(pid, address, total)
        return total
    until = time.monotonic() + 3
    while cell.value < 0 and time.monotonic() < until:
        time.sleep(0.01)
    return cell.value
