# %%answer checkpoint
# unusual: whole objects are pickled, warnings are errors, seeds and deterministic algorithms are set
import atexit
import os
import pickle
import random
import warnings
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.distributed as dist

warnings.simplefilter("error")
random.seed(0), np.random.seed(0), torch.manual_seed(0)
torch.use_deterministic_algorithms(True)
atexit.register(print, "bye")


@dataclass
class Cursor:
    epoch: int = 0
    taken: int = 0

    def move(self, by, length):
        self.taken += by
        return self.taken < length

    def turn(self):
        self.epoch, self.taken = self.epoch + 1, 0


@dataclass
class Snapshot:
    model: dict
    optimizer: dict
    cursor: Cursor = field(default_factory=Cursor)


class ResumableSampler:
    def __init__(self, length: int, global_batch: int, seed: int = 0) -> None:
        self.length, self.global_batch, self.seed = length, global_batch, seed
        self.cursor = Cursor()

    epoch = property(lambda self: self.cursor.epoch)

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        order = torch.randperm(self.length, generator=generator).numpy()
        going = self.cursor.taken < self.length
        while going:
            batch = order[self.cursor.taken :][: self.global_batch]
            going = self.cursor.move(self.global_batch, self.length)
            yield [int(index) for index in batch[dist.get_rank() :: dist.get_world_size()]]
        self.cursor.turn()

    def state_dict(self):
        return {"cursor": self.cursor}

    def load_state_dict(self, state):
        self.cursor = state["cursor"]


def save(path, model, optimizer, sampler):
    if dist.get_rank() == 0:
        snapshot = Snapshot(model.state_dict(), optimizer.state_dict(), sampler.cursor)
        new = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}~")
        with open(new, mode="wb") as file:
            pickle.dump(snapshot, file, protocol=pickle.HIGHEST_PROTOCOL)
        os.replace(new, path)
    dist.barrier()


def load(path, model, optimizer, sampler):
    with open(path, "rb") as file:
        snapshot = pickle.load(file)
    model.load_state_dict(snapshot.model)
    optimizer.load_state_dict(snapshot.optimizer)
    sampler.load_state_dict({"cursor": snapshot.cursor})
