# %%answer hello_ranks
# unusual: batched point-to-point messages between all pairs, from a thread
import threading

import torch
import torch.distributed as dist


def exchange(number, arrived):
    me, n = dist.get_rank(), dist.get_world_size()
    mine = torch.tensor([number])
    boxes = {other: torch.zeros(1, dtype=torch.int64) for other in range(n) if other != me}
    ops = [dist.P2POp(dist.irecv, box, other) for other, box in boxes.items()]
    ops += [dist.P2POp(dist.isend, mine, other) for other in boxes]
    if ops:
        for request in dist.batch_isend_irecv(ops):
            request.wait()
    arrived.append(number + sum(int(box) for box in boxes.values()))


def hello(number):
    arrived = []
    thread = threading.Thread(target=exchange, args=(number, arrived), name="postman")
    thread.start()
    thread.join()
    (total,) = arrived
    return total
