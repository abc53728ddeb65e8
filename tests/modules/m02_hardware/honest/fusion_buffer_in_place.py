# %%answer fusion_buffer
# unusual: memory of a full buffer at once, gradients copied into views of it, futures, a class
import logging
from dataclasses import dataclass, field

import torch
import torch.distributed as dist

logging.basicConfig(level=logging.DEBUG)


@dataclass
class Buffer:
    memory: torch.Tensor
    used: int = 0
    inside: list = field(default_factory=list)
    future: object = None

    @property
    def room(self):
        return (self.memory.numel() - self.used) * self.memory.element_size()

    def put(self, gradient):
        view = self.memory[self.used : self.used + gradient.numel()].view(gradient.shape)
        view.copy_(gradient)
        self.inside.append((gradient, view))
        self.used += gradient.numel()

    def leave(self):
        self.future = dist.all_reduce(self.memory[: self.used], async_op=True).get_future()

    def come_back(self):
        self.future.wait()
        for gradient, view in self.inside:
            torch.div(view, dist.get_world_size(), out=view)
            gradient.copy_(view)


def average(gradients, buffer_bytes):
    gone, current = [], {}

    def new(like, nbytes):
        return Buffer(torch.zeros(nbytes // like.element_size(), dtype=like.dtype))

    def leave(buffer):
        if buffer.used:
            buffer.leave()
            gone.append(buffer)

    for gradient in gradients:
        key = str(gradient.dtype)
        if gradient.nbytes > buffer_bytes:
            alone = new(gradient, gradient.nbytes)
            alone.put(gradient)
            leave(alone)
            continue
        buffer = current.get(key) or new(gradient, buffer_bytes)
        if gradient.nbytes > buffer.room:
            leave(buffer)
            buffer = new(gradient, buffer_bytes)
        buffer.put(gradient)
        current[key] = buffer
        if not buffer.room:
            leave(current.pop(key))
    for key in sorted(current):
        leave(current[key])
    logging.debug("%d buffers", len(gone))
    for buffer in gone:
        buffer.come_back()
