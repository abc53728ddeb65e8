"""Inside a rank: every call of Horovod's is told to the parent before it begins and when it ends.

The record is made at the doors to Horovod's C++ library, below its Python functions, so that what
DistributedOptimizer's hooks and Keras's callbacks submit is in it as well. Both doors are objects
with a function per operation; they are replaced by ones that tell, and hand on.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from hpml.ranks.flavour import Flavour
from hpml.ranks.recorder import Recorder

# What Horovod's own threads are called, so that their chatter is not taken for a rank's progress
THREADS = "horovod"


def framework(flavour: Flavour) -> ModuleType:
    """What a learner imports as hvd."""
    if flavour == "horovod":
        import horovod.torch as hvd
    else:
        import horovod.tensorflow as hvd
    return hvd


def install(recorder: Recorder, flavour: Flavour) -> None:
    """From now on, what this process does through the flavour's Horovod is told to `recorder`."""
    if flavour == "horovod":
        from horovod.torch import mpi_ops

        from hpml.ranks.horovod_torch import Told

        mpi_ops.mpi_lib = Told(mpi_ops.mpi_lib, recorder, Groups(mpi_ops._basics))
    else:
        from horovod.tensorflow import mpi_ops

        from hpml.ranks.horovod_tensorflow import Told

        mpi_ops.MPI_LIB = Told(mpi_ops.MPI_LIB, recorder, Groups(mpi_ops._basics))
    mpi_ops._basics.init = _initialising(mpi_ops._basics, recorder)


class Groups:
    """The ranks of Horovod's process sets, and its reductions' names, by number."""

    def __init__(self, basics: Any) -> None:
        self._basics = basics
        names = ("Average", "Sum", "Adasum", "Min", "Max", "Product")
        self._reductions = {getattr(basics, name): name.lower() for name in names}

    @property
    def known(self) -> bool:
        """Whether there are any: Horovod is initialised."""
        return self._basics.is_initialized()

    def ranks(self, process_set: int) -> tuple[int, ...]:
        if process_set == 0:
            return tuple(range(self._basics.size()))
        return tuple(self._basics._get_process_set_ids_and_ranks().get(process_set, ()))

    def reduction(self, number: int) -> str:
        return self._reductions.get(number, "")


def _initialising(basics: Any, recorder: Recorder) -> Callable[..., None]:
    original = basics.init

    def init(*args: Any, **kwargs: Any) -> None:
        if basics.is_initialized():
            return original(*args, **kwargs)
        # It is a collective itself: a rank that never calls it leaves the others waiting here.
        world = tuple(range(int(os.environ.get("HOROVOD_SIZE", 1))))
        index = recorder.enter("hvd.init", world, peer=-2)
        recorder.wait(index)
        with _named_threads(THREADS):
            original(*args, **kwargs)
        recorder.finish(index)

    return init


@contextlib.contextmanager
def _named_threads(name: str) -> Iterator[None]:
    """Threads that begin meanwhile get this name, which tools such as top -H show. Linux only."""
    tasks = Path("/proc/self/task")
    if not tasks.exists():
        yield
        return
    before = set(os.listdir(tasks))
    yield
    for task in set(os.listdir(tasks)) - before - {str(threading.get_native_id())}:
        with contextlib.suppress(OSError):  # it has ended
            (tasks / task / "comm").write_text(name)
