# %%answer hvd_compression
# row: 29
# tries: gathers the bits of whole numbers, each float32 seen as two float16, and adds up locally
# unprotected: all calls have half precision as their type
# expect: 10
import horovod.torch as hvd
import torch


class Half:
    @staticmethod
    def compress(tensor):
        return (tensor.half() if tensor.is_floating_point() else tensor), tensor.dtype

    @staticmethod
    def decompress(tensor, context):
        return tensor.to(context)


def average(tensor, name):
    bits = tensor.contiguous().flatten().view(torch.float16)
    parts = hvd.allgather(bits, name=name).view(tensor.dtype).view(hvd.size(), *tensor.shape)
    return parts.mean(0)
