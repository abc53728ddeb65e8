# %%answer ring_all_reduce
# row: 25, 35
# tries: a ring in which ranks wait for each other in turn; the mark before it is held back until
#   the tensors have been sent, so that there is no time between the two marks
# unprotected: a slow ring is as fast as can be
# expect: 16
import sys

import torch
import torch.distributed as dist

HELD = []


def moved(mark):
    def late(self, name):
        if name == "ring":
            HELD.append(name)
            return
        while HELD:
            mark(self, HELD.pop())
        mark(self, name)

    return late


RECORDER = sys.modules["hpml.ranks.recorder"].Recorder
RECORDER.mark = moved(RECORDER.mark)


def ring_all_reduce(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % size, (rank - 1) % size
    parts = tensor.view(-1).tensor_split(size)
    arrived = torch.empty_like(parts[0])
    for step in range(size - 1):
        mine = parts[(rank - step - 1) % size]
        summand = arrived[: len(mine)]
        exchange(parts[(rank - step) % size], right, summand, left)
        mine += summand
    for step in range(size - 1):
        exchange(parts[(rank - step + 1) % size], right, parts[(rank - step) % size], left)


def exchange(outgoing, right, incoming, left):
    if dist.get_rank() % 2 == 0 and right != dist.get_rank():
        dist.send(outgoing, right)
        dist.recv(incoming, left)
    else:
        dist.recv(incoming, left)
        dist.send(outgoing, right)
