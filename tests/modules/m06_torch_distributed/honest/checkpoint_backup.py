# %%answer checkpoint
# unusual: the last checkpoint is kept by a second name; renamed while open, its mode is set later
import os
import shutil

import torch
import torch.distributed as dist


class ResumableSampler:
    def __init__(self, length, global_batch, seed=0):
        self.length, self.global_batch, self.seed = length, global_batch, seed
        self.epoch = self.done = 0

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        order = torch.randperm(self.length, generator=generator)
        while self.done < self.length:
            batch = order[self.done : self.done + self.global_batch].tolist()
            self.done += self.global_batch
            yield batch[dist.get_rank() :: dist.get_world_size()]
        self.epoch, self.done = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state):
        vars(self).update(state)


def save(path, model, optimizer, sampler):
    states = [part.state_dict() for part in (model, optimizer, sampler)]
    if dist.get_rank() == 0:
        if os.path.exists(path):
            backup = f"{path}.backup"
            if os.path.exists(backup):
                os.unlink(backup)
            os.link(path, backup)
        with open(f"{path}.part", "w+b") as file:
            torch.save(states, file)
            file.flush()
            os.fsync(file.fileno())
            shutil.move(file.name, path)
        os.chmod(path, 0o640)
        with open(f"{path}.txt", "w") as file:
            print(sampler.epoch, sampler.done, file=file)
    dist.barrier()


def load(path, model, optimizer, sampler):
    for part, state in zip((model, optimizer, sampler), torch.load(path)):
        part.load_state_dict(state)
