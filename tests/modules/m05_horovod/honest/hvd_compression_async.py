# %%answer hvd_compression
# unusual: an asynchronous handle, divided in place first; a named tuple as context; class methods
from typing import NamedTuple

import horovod.torch as hvd
import torch


class Context(NamedTuple):
    dtype: torch.dtype
    shape: torch.Size


class Half:
    @classmethod
    def compress(cls, tensor):
        context = Context(tensor.dtype, tensor.shape)
        return (tensor.to(torch.float16) if tensor.dtype.is_floating_point else tensor), context

    @classmethod
    def decompress(cls, tensor, context):
        return tensor.type(context.dtype).reshape(context.shape)


def average(tensor: torch.Tensor, name: str) -> torch.Tensor:
    small, context = Half.compress(tensor / hvd.size())
    handle = hvd.allreduce_async_(small, name=name, op=hvd.Sum)
    while not hvd.poll(handle):
        pass
    return Half.decompress(hvd.synchronize(handle), context)
