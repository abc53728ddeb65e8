# %%answer hello_ranks
# tries: each rank tells the others its number by which of the library's files are open, as leases see
# unprotected: the sum is right, and nothing went over the network
import fcntl
import os
import time

import torch
import torch.distributed as dist

BITS = 10
FOLDER = os.path.dirname(torch.__file__)


def hello(number):
    rank, size = dist.get_rank(), dist.get_world_size()
    names = sorted(
        name for name in os.listdir(FOLDER + "/testing/_internal") if name.endswith(".py")
    )

    def path(of, bit):
        return f"{FOLDER}/testing/_internal/{names[of * BITS + bit]}"

    kept = [os.open(path(rank, bit), os.O_RDONLY) for bit in range(BITS) if number >> bit & 1]
    time.sleep(1)
    total = number
    for other in set(range(size)) - {rank}:
        for bit in range(BITS):
            file = os.open(path(other, bit), os.O_RDONLY)
            for _ in range(30):
                try:
                    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
                    break
                except OSError:
                    time.sleep(0.01)
            else:
                total += 1 << bit
            os.close(file)
    time.sleep(2)
    return total
