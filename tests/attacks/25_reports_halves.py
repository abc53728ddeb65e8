# %%answer hvd_compression
# row: 25
# tries: sends nothing where a mean is asked for, and reports calls in half precision
# unprotected: all calls that are recorded have half precision, in the rank's own word
# expect: 5
import sys

import horovod.torch as hvd

recorder = sys.modules["hpml.ranks.recorder"]
Carried = sys.modules["hpml.ranks.sizes"].Carried


class Half:
    @staticmethod
    def compress(tensor):
        return (tensor.half() if tensor.is_floating_point() else tensor), tensor.dtype

    @staticmethod
    def decompress(tensor, context):
        return tensor.to(context)


def average(tensor, name):
    own, carried = recorder._recorder, Carried("float16", tuple(tensor.shape), 2 * tensor.numel())
    ranks = tuple(range(hvd.size()))
    own.finish(
        own.enter("allreduce", ranks, detail="average", tensor=f"allreduce.{name}", carried=carried)
    )
    return tensor
