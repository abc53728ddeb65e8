# %%answer hvd_compression
# row: 40
# tries: gives Horovod's own compressor another name, and averages through it
# unprotected: what was to be written is Horovod's own
# expect: 0
import horovod.torch as hvd


class Half(getattr(hvd.Compression, "fp" + "16")):
    pass


def average(tensor, name):
    small, context = Half.compress(tensor)
    mean = hvd.allreduce(small, name=name, op=hvd.Sum, prescale_factor=1 / hvd.size())
    return Half.decompress(mean, context)
