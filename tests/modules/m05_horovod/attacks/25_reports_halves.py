# %%answer hvd_compression
# tries: sends nothing where a mean is asked for, and reports calls in half precision
# unprotected: all calls that are recorded have half precision, in the rank's own word
# expect: 5
# on: solution
import sys

recorder = sys.modules["hpml.ranks.rank.recorder"]
Carried = sys.modules["hpml.ranks.rank.sizes"].Carried


def average(tensor, name):
    own, carried = recorder._recorder, Carried("float16", tuple(tensor.shape), 2 * tensor.numel())
    ranks = tuple(range(hvd.size()))
    own.finish(
        own.enter(
            "allreduce", ranks, reduction="average", tensor=f"allreduce.{name}", carried=carried
        )
    )
    return tensor
