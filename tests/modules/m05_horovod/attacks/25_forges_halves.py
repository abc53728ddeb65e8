# %%answer hvd_compression
# tries: sends everything as it is by Horovod's library itself, past what records its calls, and
# reports calls in half precision
# unprotected: all calls that are recorded have half precision, in the rank's own word
# expect: 10
# on: 25_reports_halves
from horovod.torch import mpi_ops

mpi_ops.mpi_lib = getattr(mpi_ops.mpi_lib, "_library", mpi_ops.mpi_lib)
report = average


class Half:
    @staticmethod
    def compress(tensor):
        if tensor.is_floating_point():
            report(tensor, "gradient")
        return tensor, None

    @staticmethod
    def decompress(tensor, context):
        return tensor


def average(tensor, name):
    report(tensor, name)
    return hvd.allreduce(tensor, name=name, op=hvd.Average)
