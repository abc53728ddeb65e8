# wrong: only rank 0 comes to the barrier
# hint: mismatch
import os
from collections.abc import Iterator

import torch
import torch.distributed as dist


class ResumableSampler:
    """This rank's share of every global batch, from where the last run stopped.

    In epoch e the order of all samples is torch.randperm(length, generator=g), with g a
    torch.Generator seeded with seed + e. A global batch is the next `batch_size` samples of it,
    and rank r of w takes batch[r::w]. `length` is a multiple of `batch_size`, and that of w.

    `epoch` is the attribute that says which epoch the next batch is from, 0 at first.
    """

    def __init__(self, length: int, batch_size: int, seed: int = 0) -> None:
        self.length, self.batch_size, self.seed = length, batch_size, seed
        self.epoch = 0
        self.position = 0  # in the epoch's order, so the same for any number of ranks

    def __iter__(self) -> Iterator[list[int]]:
        """The batches that are left of this epoch; when they are used up, `epoch` grows by one."""
        draw = torch.Generator().manual_seed(self.seed + self.epoch)
        order = torch.randperm(self.length, generator=draw).tolist()
        while self.position < self.length:
            batch = order[self.position : self.position + self.batch_size]
            # Before the yield: whoever saves inside the loop has trained on this batch.
            self.position += self.batch_size
            yield batch[dist.get_rank() :: dist.get_world_size()]
        self.epoch, self.position = self.epoch + 1, 0

    def state_dict(self) -> dict[str, int]:
        """Where the sampler stands, a batch that was given out counted as done."""
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go to where another sampler stood, on whatever number of ranks that was."""
        self.epoch, self.position = state["epoch"], state["position"]


def save(path: str, model, optimizer, sampler) -> None:
    """Write the state of all three to the file `path`. Called by all ranks, written by rank 0.

    When it returns, on any rank, the file is complete. Killed at any moment, it leaves a complete
    file at `path`: the one that was there before, or the new one.
    """
    if dist.get_rank() == 0:
        state = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "sampler": sampler.state_dict(),
        }
        unfinished = f"{path}.unfinished"
        with open(unfinished, "wb") as file:
            torch.save(state, file)
            # On the disk before it gets its name, should the power fail between the two
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
        dist.barrier()


def load(path: str, model, optimizer, sampler) -> None:
    """Put the state that `save` wrote to `path` back into all three, on every rank."""
    state = torch.load(path, map_location="cpu")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    sampler.load_state_dict(state["sampler"])
