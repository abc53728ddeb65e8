"""Records horovod.torch's calls of its C++ library."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from hpml.ranks.rank.process_sets import ProcessSets
from hpml.ranks.rank.recorder import Recorder

_PREFIX = "horovod_torch_"


@dataclass(frozen=True)
class _Arguments:
    """Where an operation's arguments are (horovod/torch/mpi_ops.py, Horovod 0.28.1)."""

    name: int | None = None
    process_set: int | None = None
    reduction: int | None = None
    root: int | None = None


_OPERATIONS = {
    "allreduce": _Arguments(name=3, reduction=4, process_set=7),
    "grouped_allreduce": _Arguments(name=3, reduction=4, process_set=7),
    "allgather": _Arguments(name=2, process_set=3),
    "grouped_allgather": _Arguments(name=2, process_set=3),
    "broadcast": _Arguments(root=2, name=3, process_set=4),
    "alltoall": _Arguments(name=4, process_set=5),
    "reducescatter": _Arguments(name=2, reduction=3, process_set=4),
    "grouped_reducescatter": _Arguments(name=2, reduction=3, process_set=4),
    "join": _Arguments(),
    "barrier": _Arguments(process_set=0),
}


class RecordingLibrary:
    """Stands in for `mpi_lib_v2`, the library of `horovod.torch.mpi_ops`."""

    def __init__(self, library: Any, recorder: Recorder, process_sets: ProcessSets) -> None:
        self._library, self._recorder, self._process_sets = library, recorder, process_sets
        self._handles: dict[int, int] = {}  # handle → index of the call
        self._last_handle = 0  # Horovod names unnamed tensors by this count

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._library, name)
        operation = name.removeprefix(_PREFIX).partition("_async_")[0]
        if operation in _OPERATIONS:
            return self._submitting(operation, function)
        return function

    def horovod_torch_wait_and_clear(self, handle: int) -> None:
        index = self._handles.pop(handle, None)
        if index is None:
            return self._library.horovod_torch_wait_and_clear(handle)
        self._recorder.wait(index)
        self._library.horovod_torch_wait_and_clear(handle)
        self._recorder.finish(index)

    def horovod_torch_poll(self, handle: int) -> int:
        done = self._library.horovod_torch_poll(handle)
        if done and handle in self._handles:
            self._recorder.finish(self._handles[handle])
        return done

    def horovod_torch_reset(self) -> None:
        self._handles.clear()
        self._last_handle = 0
        self._library.horovod_torch_reset()

    def _submitting(self, operation: str, function: Callable[..., int]) -> Callable[..., int]:
        places = _OPERATIONS[operation]

        def submit(*args: Any) -> int:
            if not self._process_sets.known:
                return function(*args)  # which reports the error
            name = args[places.name] if places.name is not None else ""
            tensors = args[0] if operation not in ("join", "barrier") else []
            reduction = ""
            if places.reduction is not None:
                reduction = self._process_sets.reduction(args[places.reduction])
            index = self._recorder.enter(
                operation,
                self._process_sets.ranks(
                    0 if places.process_set is None else args[places.process_set]
                ),
                [tensors] if isinstance(tensors, torch.Tensor) else list(tensors),
                reduction,
                root=None if places.root is None else args[places.root],
                tensor=self._name(operation, name),
            )
            self._last_handle += 1  # also where the call then fails
            handle = function(*args)
            self._handles[handle] = index
            self._last_handle = handle
            return handle

        return submit

    def _name(self, operation: str, name: str | bytes) -> str:
        """What Horovod calls the tensor: GetOpName in horovod/torch/mpi_ops_v2.cc."""
        if operation in ("join", "barrier"):
            return f"{operation}.noname"
        given = name.decode("utf-8", "replace") if isinstance(name, bytes) else name
        return f"{operation}.{given or f'noname.{self._last_handle + 1}'}"
