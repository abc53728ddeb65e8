"""How long Horovod's all-reduce takes, by size: on each rank, the quickest of twenty."""

import time

import horovod.torch as hvd
import torch

from hpml.frameworks import task

hvd.init()
taken = {}
for nbytes in (4, 4_000, 400_000, 4_000_000):
    tensor = torch.ones(nbytes // 4)
    seconds = []
    for _ in range(20):
        hvd.barrier()
        began = time.perf_counter()
        hvd.allreduce_(tensor, name=f"{nbytes} bytes")
        seconds.append(time.perf_counter() - began)
    taken[str(nbytes)] = min(seconds)
if hvd.rank() == 0:
    task.tell({"ranks": hvd.size(), "seconds": taken})
