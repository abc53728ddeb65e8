"""The traces of a run's ranks, found in the folder into which each rank wrote its own."""

import dataclasses
import os
from pathlib import Path

from hpml.errors import UserError
from hpml.trace.profiler.clocks import moved_by
from hpml.trace.profiler.read import read
from hpml.trace.profiler.trace import Trace
from hpml.trace.profiler.trace_file import NotATraceError

ENDINGS = (".json", ".json.gz")


def read_ranks(folder: str | os.PathLike[str], *, some: bool = False) -> list[Trace]:
    """The traces in `folder`, by rank, with one zero of time; the newest of a rank that wrote more.

    A trace names its rank and the number of ranks itself, where torch.distributed was initialized
    when it was recorded. A file's age is the number in its name, as `tensorboard_trace_handler`
    writes it, or else when it was last changed.

    Other files beside the traces are passed over. With `some`, ranks may be missing, as where the
    training script was told to profile two of them: the traces are then those that are there, and
    each names its `rank`.

    Raises UserError where a rank is missing, or a trace names none, or as `read` does.
    """
    if not Path(folder).is_dir():
        raise UserError(f"{folder}: no such folder: name the one that the ranks wrote into")
    files = [path for path in Path(folder).iterdir() if path.name.endswith(ENDINGS)]
    by_rank: dict[int, Trace] = {}
    for path in sorted(files, key=_age):
        if path.name.startswith("."):  # macOS copies "._rank0.pt.trace.json" beside a file
            continue
        try:
            trace = read(path)
        except NotATraceError:
            continue
        if trace.rank is None:
            raise UserError(
                f"{path.name}: names no rank: call init_process_group before the profiler starts"
            )
        by_rank[trace.rank] = trace
    if not by_rank:
        raise UserError(f"{Path(folder).name}: there is no trace in it: let each rank write one")
    size = max(max(trace.world_size or 0, rank + 1) for rank, trace in by_rank.items())
    if some:
        first = by_rank[min(by_rank)].epoch
        return [_since(first, by_rank[rank]) for rank in sorted(by_rank)]
    if missing := sorted(set(range(size)) - set(by_rank)):
        raise UserError(
            f"{Path(folder).name}: of {size} ranks, these have no trace: "
            f"{', '.join(map(str, missing))}"
        )
    return [_since(by_rank[0].epoch, by_rank[rank]) for rank in range(size)]


def _since(epoch: int, trace: Trace) -> Trace:
    """The same trace with times since `epoch`: each file may have a zero of its own."""
    moved = moved_by(trace, (trace.epoch - epoch) * 1e-9)
    return dataclasses.replace(moved, epoch=epoch)


def _age(path: Path) -> tuple[int, str]:
    numbers = [int(word) for word in path.name.split(".") if word.isdecimal()]
    return (numbers[0] if numbers else path.stat().st_mtime_ns), path.name
