# %%answer ring_all_reduce
# unusual: numpy views of the tensor's memory are added up in place; a class around the ring
import numpy as np
import torch
import torch.distributed as dist


class Ring:
    def __init__(self):
        self.p, self.me = dist.get_world_size(), dist.get_rank()
        self.right, self.left = divmod(self.me + 1, self.p)[1], (self.me or self.p) - 1

    def turn(self, gives, takes):
        incoming = dist.irecv(torch.from_numpy(takes), src=self.left)
        outgoing = dist.isend(torch.from_numpy(gives), dst=self.right)
        incoming.wait(), outgoing.wait()

    def __call__(self, array):
        pieces = np.array_split(array, self.p)
        spare = np.empty_like(pieces[0])
        for step in range(self.p - 1):
            target = pieces[self.me - step - 1]
            self.turn(pieces[self.me - step], spare[: len(target)])
            np.add(target, spare[: len(target)], out=target)
        for step in range(self.p - 1):
            self.turn(pieces[(self.me - step + 1) % self.p], pieces[self.me - step])


def ring_all_reduce(tensor: torch.Tensor) -> None:
    Ring()(tensor.numpy().reshape(-1))


if __name__ == "__main__":
    dist.init_process_group("gloo")
    ring_all_reduce(torch.ones(10))
