# %%answer hvd_compression
# unusual: float64 is the default dtype; a subclass of Horovod's base class; closures as contexts
import horovod.torch as hvd
import torch
from horovod.torch.compression import Compressor

torch.set_default_dtype(torch.float64)


class Half(Compressor):
    @staticmethod
    def compress(tensor):
        if tensor.dtype in (torch.float16, torch.float32, torch.float64, torch.bfloat16):
            dtype = tensor.dtype
            return tensor.half(), lambda arrived: arrived.to(dtype)
        return tensor, lambda arrived: arrived

    @staticmethod
    def decompress(tensor, context):
        return context(tensor)


def average(tensor, name):
    small, back = Half.compress(tensor.mul(1.0 / hvd.size()))
    return Half.decompress(hvd.grouped_allreduce([small], name=name, op=hvd.Sum)[0], back)
