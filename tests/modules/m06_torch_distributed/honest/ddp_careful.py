# %%answer ddp
# unusual: seeds, one thread, OMP_NUM_THREADS, print is replaced, a test of its own at the start
import builtins
import functools
import os
import random

os.environ["OMP_NUM_THREADS"] = "1"

import numpy
import torch
import torch.distributed as dist
from torch import nn

random.seed(0)
numpy.random.seed(0)
torch.manual_seed(0)
torch.set_num_threads(1)
torch.autograd.set_detect_anomaly(False)
builtins.print = functools.partial(print, flush=True)


class DataParallel(nn.Module):
    def __init__(self, module, bucket_bytes=2**20):
        super().__init__()
        self.module, self.bucket_bytes = module, bucket_bytes
        self._make_alike()
        self._assert_alike()
        self._plan()

    @torch.no_grad()
    def _make_alike(self):
        works = [
            dist.broadcast(tensor, src=0, async_op=True)
            for tensor in (*self.module.parameters(), *self.module.buffers())
        ]
        for work in works:
            work.wait()

    def _assert_alike(self):
        """All ranks have the same sums: cheap, and it has found a bug once."""
        mine = torch.stack([p.detach().double().sum() for p in self.module.parameters()])
        largest, smallest = mine.clone(), mine.clone()
        dist.all_reduce(largest, op=dist.ReduceOp.MAX)
        dist.all_reduce(smallest, op=dist.ReduceOp.MIN)
        assert torch.equal(largest, smallest), "ranks differ"

    def _plan(self):
        self._queue, self._works = [], []
        for parameter in reversed([p for p in self.module.parameters() if p.requires_grad]):
            nbytes = parameter.numel() * parameter.element_size()
            if not self._queue or self._queue[-1]["room"] < nbytes:
                self._queue.append({"room": self.bucket_bytes, "of": []})
            self._queue[-1]["room"] -= nbytes
            self._queue[-1]["of"].append(parameter)
            parameter.register_post_accumulate_grad_hook(self._on_gradient)
        self._arrived = set()
        print(f"{len(self._queue)} buckets on rank {dist.get_rank()}")

    def _on_gradient(self, parameter):
        if parameter in self._arrived:
            raise RuntimeError("one backward, one synchronize")
        self._arrived.add(parameter)
        self._flush(lambda bucket: self._arrived.issuperset(bucket["of"]))

    def _flush(self, complete):
        while len(self._works) < len(self._queue):
            bucket = self._queue[len(self._works)]
            if not complete(bucket):
                return
            parts = []
            for parameter in bucket["of"]:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                parts.append(parameter.grad.view(-1))
            flat = torch.cat(parts)
            self._works.append((bucket, flat, dist.all_reduce(flat, async_op=True)))

    def forward(self, *inputs, **options):
        return self.module(*inputs, **options)

    @torch.no_grad()
    def synchronize(self):
        self._flush(lambda bucket: True)
        for bucket, flat, work in self._works:
            work.wait()
            flat *= 1.0 / dist.get_world_size()
            start = 0
            for parameter in bucket["of"]:
                stop = start + parameter.numel()
                parameter.grad.copy_(flat[start:stop].reshape(parameter.shape))
                start = stop
        self._works = []
        self._arrived = set()
