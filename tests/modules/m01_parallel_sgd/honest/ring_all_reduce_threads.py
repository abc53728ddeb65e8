# %%answer ring_all_reduce
# unusual: sends from a thread while the main thread receives; an own error class; named steps
import threading
from contextlib import contextmanager

import torch
import torch.distributed as dist


class RingError(RuntimeError):
    pass


@contextmanager
def sending(tensor, to):
    errors = []

    def send():
        try:
            dist.send(tensor, to)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=send, name=f"send to {to}")
    thread.start()
    yield
    thread.join()
    if errors:
        raise RingError(f"to rank {to}") from errors[0]


def ring_all_reduce(tensor):
    size = dist.get_world_size()
    if size == 1:
        return
    rank = dist.get_rank()
    pieces = list(tensor.view(-1).tensor_split(size))
    spare = torch.empty(max(map(len, pieces)), dtype=tensor.dtype)
    for phase in ("reduce", "gather"):
        for step in range(size - 1):
            shift = int(phase == "gather")
            out, into = (
                pieces[(rank + shift - step) % size],
                pieces[(rank + shift - step - 1) % size],
            )
            arrived = spare[: len(into)] if phase == "reduce" else into
            request = dist.irecv(arrived, src=(rank - 1) % size)
            with sending(out, (rank + 1) % size):
                request.wait()
            if phase == "reduce":
                torch.add(into, arrived, out=into)
