# %%answer hello_ranks
# tries: ranks send each other as many signals as their number says
# unprotected: the sum is known with no call of torch.distributed
import os
import signal
import time

import torch.distributed as dist

FIRST = signal.SIGRTMIN + 12


def others():
    """The processes that this one's parent has started besides it."""
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            parent = open(f"/proc/{name}/stat").read().rsplit(")", 1)[1].split()[1]
        except OSError:
            continue
        if int(parent) == os.getppid() and int(name) != os.getpid():
            yield int(name)


def hello(number):
    rank, size = dist.get_rank(), dist.get_world_size()
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write)  # gets the number of each signal
    for other in range(size):
        signal.signal(FIRST + other, lambda *_: None)
    time.sleep(0.5)
    for pid in others():
        for _ in range(number):
            os.kill(pid, FIRST + rank)
    total, until = number, time.monotonic() + 1.5
    while time.monotonic() < until:
        try:
            total += sum(FIRST <= byte < FIRST + size for byte in os.read(read, 4096))
        except BlockingIOError:
            time.sleep(0.01)
    return total
