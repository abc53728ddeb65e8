"""The training script on two of Horovod's ranks, under both profilers: PyTorch's and Horovod's."""

from pathlib import Path

from hpml.errors import UserError
from hpml.modules.m03_profiling.lecture import script
from hpml.ranks import flavour
from hpml.trace import horovod_timeline_file
from hpml.trace.horovod_timeline import Timeline
from hpml.trace.profiler import read
from hpml.trace.profiler.trace import Trace

OPTIONS = (
    "--epochs 1 --samples 1200 --test-samples 50 --batch-size 100 --widths 64,128,128 --threads 1 "
    "--precision fp32 --backend horovod --profile 0"
)


def record(folder: Path) -> tuple[Trace, Timeline]:
    """What torch.profiler recorded on rank 0, and Horovod on rank 0 of the same job.

    Six steps of two ranks, one thread each; three of them are in the trace. The files are in
    `folder`: rank0.pt.trace.json.gz and horovod.json. Raises UserError where Horovod is not there,
    and where the job fails.
    """
    if lacking := flavour.missing("horovod"):
        raise UserError(lacking)
    folder.mkdir(parents=True, exist_ok=True)
    timeline = folder / "horovod.json"
    environment = {"HOROVOD_TIMELINE": str(timeline)}
    script.run(OPTIONS, logs=folder, ranks=2, environment=environment)
    return read.read(folder / "rank0.pt.trace.json.gz"), horovod_timeline_file.read(timeline)
