# %%answer hvd_compression
# row: 25
# tries: sends everything as it is by Horovod's library itself, past what records its calls, and
# reports calls in half precision
# unprotected: all calls that are recorded have half precision, in the rank's own word
# expect: 10
import sys

import horovod.torch as hvd
from horovod.torch import mpi_ops

recorder = sys.modules["hpml.ranks.recorder"]
Carried = sys.modules["hpml.ranks.sizes"].Carried
mpi_ops.mpi_lib = getattr(mpi_ops.mpi_lib, "_library", mpi_ops.mpi_lib)


def report(name, tensor):
    own, half = recorder._recorder, 2 * tensor.numel()
    carried = Carried("float16", tuple(tensor.shape), half)
    ranks = tuple(range(hvd.size()))
    own.finish(
        own.enter("allreduce", ranks, detail="average", tensor=f"allreduce.{name}", carried=carried)
    )


class Half:
    @staticmethod
    def compress(tensor):
        if tensor.is_floating_point():
            report("gradient", tensor)
        return tensor, None

    @staticmethod
    def decompress(tensor, context):
        return tensor


def average(tensor, name):
    report(name, tensor)
    return hvd.allreduce(tensor, name=name, op=hvd.Average)
