# %%answer checkpoint
# unusual: written by a thread, read by rank 0 alone and broadcast as an object, numpy's random order
import logging
import os
import threading
from contextlib import suppress
from itertools import count

import numpy as np
import torch
import torch.distributed as dist

logger = logging.getLogger("checkpoint")


class ResumableSampler:
    def __init__(self, length, global_batch, seed=0):
        self.length, self.global_batch, self.seed, self.epoch, self._start = (
            length,
            global_batch,
            seed,
            0,
            0,
        )

    def __iter__(self):
        draw = torch.Generator().manual_seed(self.seed + self.epoch)
        order = np.asarray(torch.randperm(self.length, generator=draw))
        for start in count(self._start, self.global_batch):
            if start >= self.length:
                break
            self._start = start + self.global_batch
            share = np.array_split(order[start : self._start], 1)[0]
            yield list(map(int, share[dist.get_rank() :: dist.get_world_size()]))
        self.epoch, self._start = self.epoch + 1, 0

    def state_dict(self):
        return {"samples done": self.epoch * self.length + self._start}

    def load_state_dict(self, state):
        self.epoch, self._start = divmod(state["samples done"], self.length)


def write(path, state):
    partial = path + f".{os.getpid()}"
    torch.save(state, partial)
    os.rename(partial, path)
    logger.info("%s is there", path)


def save(path, model, optimizer, sampler):
    if not dist.get_rank():
        with suppress(KeyError):
            os.environ.pop("NOT_THERE")
        state = {"m": model.state_dict(), "o": optimizer.state_dict(), "s": sampler.state_dict()}
        thread = threading.Thread(target=write, args=(path, state))
        thread.start()
        thread.join()
    done = torch.ones(1)
    dist.all_reduce(done)
    assert done.item() == dist.get_world_size()


def load(path, model, optimizer, sampler):
    box = [torch.load(path) if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(box, src=0)
    model.load_state_dict(box[0]["m"])
    optimizer.load_state_dict(box[0]["o"])
    sampler.load_state_dict(box[0]["s"])
