# %%answer fusion_buffer
# unusual: divides before it sends, sends a buffer as soon as nothing fits, unpacks last one first
import numpy as np
import torch
import torch.distributed as dist


class Fusion:
    def __init__(self, nbytes):
        self.nbytes, self.open, self.works = nbytes, {}, []

    def bytes_of(self, tensors):
        return int(np.sum([t.numel() * t.element_size() for t in tensors], dtype=np.int64))

    def send(self, tensors):
        if not tensors:
            return
        flat = torch.empty(sum(t.numel() for t in tensors), dtype=tensors[0].dtype)
        at = 0
        for tensor in tensors:
            flat[at : at + tensor.numel()] = (tensor / dist.get_world_size()).reshape(-1)
            at += tensor.numel()
        self.works.append((dist.all_reduce(flat, async_op=True), flat, tuple(tensors)))

    def add(self, tensor):
        if not tensor.numel():
            return
        if self.bytes_of([tensor]) > self.nbytes:
            return self.send([tensor])
        there = self.open.pop(tensor.dtype, [])
        if self.bytes_of([*there, tensor]) > self.nbytes:
            self.send(there)
            there = []
        there.append(tensor)
        if self.bytes_of(there) == self.nbytes:
            self.send(there)
        else:
            self.open[tensor.dtype] = there

    def finish(self):
        while self.open:
            self.send(self.open.popitem()[1])
        while self.works:
            work, flat, tensors = self.works.pop()
            work.wait()
            at = flat.numel()
            for tensor in reversed(tensors):
                at -= tensor.numel()
                tensor[...] = flat[at : at + tensor.numel()].reshape(tensor.shape)


def average(gradients, buffer_bytes):
    fusion = Fusion(buffer_bytes)
    for gradient in gradients:
        fusion.add(gradient)
    fusion.finish()
