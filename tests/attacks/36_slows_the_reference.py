# %%answer ring_all_reduce
# row: 36
# tries: is slow, and keeps the interpreter busy whenever its own code is not timed
# unprotected: what it is compared with is slow too, or the machine looks too busy to judge
# expect: 16
import sys
import threading
import time

import torch
import torch.distributed as dist

idle = threading.Event()


def keep_busy():
    while True:
        if idle.is_set():
            time.sleep(0.001)


sys.setswitchinterval(0.025)
threading.Thread(target=keep_busy, daemon=True).start()


def ring_all_reduce(tensor):
    idle.set()
    rank, world_size = dist.get_rank(), dist.get_world_size()
    flat = tensor.view(-1)
    parts = flat.tensor_split(world_size)
    right, left = (rank + 1) % world_size, (rank - 1) % world_size
    for step in range(2 * (world_size - 1)):
        sent, received = parts[(rank - step) % world_size], parts[(rank - step - 1) % world_size]
        arrived = torch.empty_like(received)
        receive = dist.irecv(arrived, left)
        send = dist.isend(sent.clone(), right)
        receive.wait()
        send.wait()
        if step < world_size - 1:
            received += arrived
        else:
            received.copy_(arrived)
    if world_size > 1 and len(flat) > 10_000:
        time.sleep(0.15)
    idle.clear()
