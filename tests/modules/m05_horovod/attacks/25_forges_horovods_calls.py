# %%answer hvd_torch
# tries: gathers all samples by Horovod's library itself, past what records its calls, and trains
# serially on them; reports the all-reduces of gradients that a right answer makes
# unprotected: samples and weights are right, and so are the calls, in the rank's own word
# expect: 5
# on: solution
import sys

from horovod.torch import mpi_ops

recorder = sys.modules["hpml.ranks.rank.recorder"]
Carried = sys.modules["hpml.ranks.rank.sizes"].Carried
Loader = DataLoader


def gathered(mine):
    """All ranks' rows, in the order in which they are dealt out."""
    recording, rows = mpi_ops.mpi_lib, mine.contiguous()
    mpi_ops.mpi_lib = getattr(recording, "_library", recording)
    try:
        found = hvd.allgather(rows, name="rows")
    finally:
        mpi_ops.mpi_lib = recording
    return found.view(hvd.size(), *rows.shape).transpose(0, 1).flatten(0, 1)


def DataLoader(dataset, batch_size, sampler):
    for x, y in Loader(dataset, batch_size, sampler=sampler):
        rows = torch.cat([x.flatten(1), y.double().view(-1, 1)], 1)
        rows = gathered(rows) if hvd.size() > 1 else rows
        yield rows[:, :-1].reshape(-1, *x.shape[1:]), rows[:, -1].long()


def report(name, tensor):
    own = recorder._recorder
    carried = Carried("float64", tuple(tensor.shape), tensor.nbytes)
    ranks = tuple(range(hvd.size()))
    own.finish(
        own.enter(
            "allreduce", ranks, reduction="average", tensor=f"allreduce.{name}", carried=carried
        )
    )


def reports(optimizer, named_parameters):
    named = list(named_parameters)
    optimizer.register_step_pre_hook(lambda *_: [report(*each) for each in named] and None)
    return optimizer


hvd.DistributedOptimizer = reports
