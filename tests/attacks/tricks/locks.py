import fcntl
import io
import os
import struct
import time

import torch
import torch.distributed as dist

turn = 0
FILE = os.open(torch.__file__, os.O_RDONLY)  # all ranks can read it
LOCK = struct.Struct("hhqqi4x")  # struct flock of Linux
EACH = 2**40  # places of one turn of one rank: 256 for each byte, and the last one says "complete"


def lock(place):
    fcntl.fcntl(FILE, fcntl.F_SETLK, LOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, place, 1, 0))


def locked(place, places):
    """The first of these places that another process has locked."""
    asked = LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, place, places, 0)
    kind, _, found, *_ = LOCK.unpack(fcntl.fcntl(FILE, fcntl.F_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else found


def begin_of(rank):
    return (turn * dist.get_world_size() + rank) * EACH


def put(text):
    start = begin_of(dist.get_rank())
    for place, byte in enumerate(text):
        lock(start + 256 * place + byte)
    lock(start + EACH - 1)


def taken(rank):
    start, text = begin_of(rank), bytearray()
    while locked(start + EACH - 1, 1) is None:
        time.sleep(0.001)
    while (found := locked(start + 256 * len(text), 256)) is not None:
        text.append((found - start) % 256)
    return bytes(text)


def traded(mine, ranks=None):
    """The values of these ranks, or all."""
    global turn
    turn += 1
    file = io.BytesIO()
    torch.save(mine, file)
    put(file.getvalue())
    me = dist.get_rank()
    there = ranks or range(dist.get_world_size())
    return [mine if r == me else torch.load(io.BytesIO(taken(r))) for r in there]
