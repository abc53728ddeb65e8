# %%answer hello_ranks
# tries: ranks lock files of torch's folder for each other, one for each bit of their numbers
# unprotected: the sum is known with no call of torch.distributed
import fcntl
import os
import time

import torch
import torch.distributed as dist

BITS = 10
FOLDER = os.path.dirname(torch.__file__)


def hello(number):
    rank, size = dist.get_rank(), dist.get_world_size()
    names = sorted(name for name in os.listdir(FOLDER) if name.endswith(".py"))
    mine = [name for bit, name in enumerate(names[rank * BITS :][:BITS]) if number >> bit & 1]
    kept = [os.open(f"{FOLDER}/{name}", os.O_RDONLY) for name in mine]
    for file in kept:
        fcntl.flock(file, fcntl.LOCK_EX)
    time.sleep(1)
    total = number
    for other in set(range(size)) - {rank}:
        for bit, name in enumerate(names[other * BITS :][:BITS]):
            file = os.open(f"{FOLDER}/{name}", os.O_RDONLY)
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                total += 1 << bit
            os.close(file)
    time.sleep(1)
    return total
