# %%answer ddp
# unusual: buffers made once, gradients copied into views, futures, the start as one flat message
import itertools
import logging
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

logging.basicConfig(level=logging.DEBUG)


@dataclass
class Bucket:
    parameters: list = field(default_factory=list)
    ready: set = field(default_factory=set)
    future: object = None

    @property
    def nbytes(self):
        return sum(p.nbytes for p in self.parameters)

    def allocate(self):
        like = self.parameters[0]
        self.flat = like.new_zeros(sum(p.numel() for p in self.parameters))
        sizes = [p.numel() for p in self.parameters]
        self.views = [v.view_as(p) for v, p in zip(self.flat.split(sizes), self.parameters)]

    @torch.no_grad()
    def send(self):
        for parameter, view in zip(self.parameters, self.views):
            if parameter.grad is None:
                view.zero_()
            else:
                torch.div(parameter.grad, dist.get_world_size(), out=view)
        self.future = dist.all_reduce(self.flat, async_op=True).get_future()

    def receive(self):
        self.future.wait()
        for parameter, view in zip(self.parameters, self.views):
            parameter.grad = view.clone()
        self.future = None
        self.ready.clear()


class DataParallel(nn.Module):
    def __init__(self, module, bucket_bytes=1 << 20):
        super().__init__()
        self.module = module
        with torch.no_grad():
            vector = parameters_to_vector(module.parameters())
            dist.broadcast(vector, 0)
            vector_to_parameters(vector, module.parameters())
        for buffer in module.buffers():
            dist.broadcast(buffer, 0)

        self.buckets, self.again = [Bucket()], False
        trained = [p for p in module.parameters() if p.requires_grad]
        for parameter in reversed(trained):
            last = self.buckets[-1]
            if last.parameters and last.nbytes + parameter.nbytes > bucket_bytes:
                self.buckets.append(last := Bucket())
            last.parameters.append(parameter)
            parameter.register_post_accumulate_grad_hook(self.hook(last))
        for bucket in self.buckets:
            bucket.allocate()
        logging.debug("%d buckets", len(self.buckets))

    def hook(self, bucket):
        def ready(parameter):
            self.again |= id(parameter) in bucket.ready
            bucket.ready.add(id(parameter))
            self.send_what_is_complete()

        return ready

    def send_what_is_complete(self):
        waiting = itertools.dropwhile(lambda bucket: bucket.future is not None, self.buckets)
        for bucket in waiting:
            if len(bucket.ready) < len(bucket.parameters):
                break
            bucket.send()

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def synchronize(self):
        if self.again:  # a second backward has added to what had left: all of it once more
            for bucket in self.buckets:
                if bucket.future is not None:
                    bucket.future.wait()
                bucket.future = None
            self.again = False
        for bucket in self.buckets:
            if bucket.future is None:
                bucket.send()
        for bucket in self.buckets:
            bucket.receive()
