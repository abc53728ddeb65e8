"""Every call of Horovod is recorded before it begins and when it ends.

Calls are recorded where Horovod's Python enters its C++ library, so that what the hooks of
DistributedOptimizer and the callbacks of Keras submit is recorded as well. Both frameworks reach
that library through an object with a function per operation; `install` puts a RecordingLibrary in
its place.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from hpml.ranks.flavour import HOROVOD_THREADS, Flavour
from hpml.ranks.rank.process_sets import ProcessSets
from hpml.ranks.rank.recorder import Recorder


def framework(flavour: Flavour) -> ModuleType:
    """What a learner imports as hvd."""
    if flavour == "horovod":
        import horovod.torch as hvd
    else:
        import horovod.tensorflow as hvd
    return hvd


def install(recorder: Recorder, flavour: Flavour) -> None:
    """From now on, `recorder` records what this process does through the flavour's Horovod."""
    if flavour == "horovod":
        from horovod.torch import mpi_ops

        from hpml.ranks.rank import horovod_torch

        sets = ProcessSets(mpi_ops._basics)
        mpi_ops.mpi_lib = horovod_torch.RecordingLibrary(mpi_ops.mpi_lib, recorder, sets)
    else:
        from horovod.tensorflow import mpi_ops

        from hpml.ranks.rank import horovod_tensorflow

        sets = ProcessSets(mpi_ops._basics)
        mpi_ops.MPI_LIB = horovod_tensorflow.RecordingLibrary(mpi_ops.MPI_LIB, recorder, sets)
    mpi_ops._basics.init = _initialising(mpi_ops._basics, recorder)


def _initialising(basics: Any, recorder: Recorder) -> Callable[..., None]:
    original = basics.init

    def init(*args: Any, **kwargs: Any) -> None:
        if basics.is_initialized():
            return original(*args, **kwargs)
        # It is a collective itself: a rank that never calls it leaves the others waiting here.
        world = tuple(range(int(os.environ.get("HOROVOD_SIZE", 1))))
        index = recorder.enter("hvd.init", world, meets=_asked(len(world)))
        recorder.wait(index)
        with _named_threads(HOROVOD_THREADS):
            original(*args, **kwargs)
        recorder.finish(index)

    return init


def _asked(size: int) -> list[Any] | None:
    """Where this rank is to meet the others, as the environment has it, and as which rank."""
    names = ("HOROVOD_RANK", "HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT")
    rank, host, port = (os.environ.get(name, "") for name in names)
    return [int(rank), size, f"{host}:{port}", "", port] if rank.isdecimal() and port else None


@contextlib.contextmanager
def _named_threads(name: str) -> Iterator[None]:
    """Threads started meanwhile get this name, which tools such as top -H show. Linux only."""
    tasks = Path("/proc/self/task")
    if not tasks.exists():
        yield
        return
    before = set(os.listdir(tasks))
    yield
    for task in set(os.listdir(tasks)) - before - {str(threading.get_native_id())}:
        with contextlib.suppress(OSError):  # it has ended
            (tasks / task / "comm").write_text(name)
