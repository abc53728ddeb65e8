"""Inside a rank: every call of torch.distributed is recorded before it begins and when it ends.

Recorded is what passes PyTorch's dispatcher: each operator of its namespace "c10d" is replaced, for
every kind of device that it is there for, by one that writes the ledger and calls the original. The
process groups are PyTorch's own. So a call is in the ledger under whatever name it was made, from
Python or from C++ (see `operations`), and behaves as it does without. An operator that a newer
PyTorch may have and `operations` does not know raises `NotRecorded`.

Beside the dispatcher there is a backend used by itself (`group._get_backend(device)`, or one made
by hand): its methods are led to the dispatcher. And the handles: a call that came from Python is
complete when the rank notices it on the handle (`wait`, `is_completed`, `get_future`), one from C++
when it is.

Whoever installs a recorder records so. Nothing is recorded before, and all costs one comparison.
"""

import functools
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend, ProcessGroup, Work

from hpml.ranks.operations import OPERATIONS, describe, reduction_among
from hpml.ranks.recorder import Recorder, current

NAMESPACE, FUNCTIONAL = "c10d", "_c10d_functional"
_KEYS = ("CPU", "CUDA", "XPU", "PrivateUse1", "SparseCPU", "SparseCUDA")


class NotRecorded(RuntimeError):
    """This PyTorch has a way to communicate that the ledger does not know."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name} cannot be recorded in a launch: this version of the course does not know it; "
            "use another collective of torch.distributed"
        )


class _Thread(threading.local):
    """What a call that is on its way down to an operator knows, and brings up from there."""

    handed_over = False  # the handle goes to Python, where its methods are recorded
    reduction = ""  # "sum"
    index: int | None = None  # the ledger's, of the last call


_thread = _Thread()
_libraries: list[torch.library.Library] = []  # as long as one lives, its operators are in force
_indices: WeakKeyDictionary[Work, int] = WeakKeyDictionary()  # of handles that Python holds
_groups: WeakKeyDictionary[Backend, ProcessGroup] = WeakKeyDictionary()  # of backends by themselves
# Never destroyed: a Gloo backend's destructor waits for its threads with the interpreter's lock
# held, while one of them may need that lock to record that a call is complete.
_kept: list[Backend] = []
_held: dict[int, torch._C.ScriptList] = {}  # of one tensor each, by its id
_holding = threading.Lock()


def prepare() -> None:
    """Replace the operators and methods, once in a process. Takes 10 ms: before ranks are forked.

    Until `recorder.install` they do what they always did.
    """
    if _libraries:
        return
    _replace(NAMESPACE, _operator, "process_group")
    _replace(FUNCTIONAL, _reducing, "reduce_op")
    for name in _communicating(ProcessGroup):
        setattr(ProcessGroup, name, _handing_over(getattr(ProcessGroup, name)))
    for name in _communicating(Backend):
        setattr(Backend, name, _through_dispatcher(name, getattr(Backend, name)))
    if dist.is_gloo_available():
        dist.ProcessGroupGloo.__init__ = _keeping(dist.ProcessGroupGloo.__init__)
    Work.wait = _waiting(Work.wait)
    Work.is_completed = _asking(Work.is_completed)
    Work.get_future = _with_future(Work.get_future)


def _replace(namespace: str, replacement: Callable[..., Callable], argument: str) -> None:
    """Replace the operators of `namespace` that have such an argument."""
    library = torch.library.Library(namespace, "IMPL")
    _libraries.append(library)
    for full_name in torch._C._dispatch_get_all_op_names():
        space, _, name = full_name.partition("::")
        if space != namespace:
            continue
        overload = getattr(getattr(torch.ops, namespace), name).default
        names = [one.name for one in overload._schema.arguments]
        if argument not in names:
            continue
        for key in _keys(full_name):
            kernel = torch.library.get_kernel(full_name, key)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "(?s).*Overriding a previously registered kernel")
                library.impl(name, replacement(name, names, kernel), key, with_keyset=True)


def _keys(operator: str) -> list[str]:
    """The dispatch keys for which an operator has a kernel, or a composite one that serves them."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    if has(operator, "CompositeExplicitAutograd"):
        return [key for key in _KEYS if not key.startswith("Sparse")]
    return [key for key in _KEYS if has(operator, key)]


def _operator(operator: str, names: list[str], kernel: Any) -> Callable[..., Any]:
    def run(keys: torch._C.DispatchKeySet, *values: Any) -> Any:
        recorder = current()
        if recorder is None:
            return kernel.call_boxed(keys, *values)
        if operator not in OPERATIONS:
            raise NotRecorded(f"{NAMESPACE}::{operator}")
        arguments = dict(zip(names, values, strict=False))
        ranks = global_ranks(ProcessGroup.unbox(arguments["process_group"]))
        call = describe(operator, arguments, ranks, _thread.reduction)
        index = recorder.enter(call.operation, ranks, call.tensors, call.detail, call.peer)
        _thread.index = index
        handed_over = _thread.handed_over
        if operator == "monitored_barrier_":
            _wait_at_barrier(recorder, index, **arguments)
            return None
        _hold(values)
        result = kernel.call_boxed(keys, *values)
        if not handed_over:
            boxed = result[-1] if isinstance(result, tuple) else result
            _expect(recorder, index, Work.unbox(boxed))
        return result

    return run


def _hold(values: Any) -> None:
    """Keep C++'s hold on a call's tensors until Gloo has let go of them.

    Gloo's thread drops the tensors of a finished call with its queue locked. If it is the last in
    C++ to hold one, it takes the interpreter's lock to tell Python. But an operator's kernel that
    is called from Python has that lock, and waits for the queue to put the next call there.
    """
    with _holding:
        for key, (held,) in list(_held.items()):
            # One for the tensor's Python object, and one for this list
            if torch.Tensor._use_count(held) <= 2:
                del _held[key]
        for tensor in _tensors_in(values):
            if id(tensor) not in _held:
                _held[id(tensor)] = torch._C.ScriptList([tensor])


def _tensors_in(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors_in(item)


def _wait_at_barrier(
    recorder: Recorder,
    index: int,
    tensor: torch.Tensor,
    process_group: Any,
    device_ids: list[int],
    timeout: int,
    wait_all_ranks: bool,
) -> None:
    """The one operator that waits itself: by the backend's method, which lets other threads run
    meanwhile, while an operator's kernel that is called from Python does not."""
    backend = ProcessGroup.unbox(process_group)._get_backend(tensor.device)
    recorder.wait(index)
    _monitored_barrier(backend, timedelta(milliseconds=timeout), wait_all_ranks)
    recorder.finish(index)


def _reducing(operator: str, names: list[str], kernel: Any) -> Callable[..., Any]:
    """A functional collective: what it reduces by is a word here, and cannot be read further on."""

    def run(keys: torch._C.DispatchKeySet, *values: Any) -> Any:
        before, _thread.reduction = _thread.reduction, values[names.index("reduce_op")]
        try:
            return kernel.call_boxed(keys, *values)
        finally:
            _thread.reduction = before

    return run


def global_ranks(group: ProcessGroup) -> tuple[int, ...]:
    """The group's members, in its order. Of a group made by hand only how many there are is known:
    they count as 0, 1, 2 and so on."""
    for device in group._device_types:
        options = getattr(group._get_backend(device), "options", None)
        if ranks := getattr(options, "global_ranks_in_group", None):
            return tuple(ranks)
    return tuple(range(group.size()))


def _communicating(kind: type) -> list[str]:
    """The names of a class's methods that return a handle, and of those known to communicate."""
    return [
        name
        for name, method in vars(kind).items()
        if re.search(r"-> c10d::Work$", getattr(method, "__doc__", None) or "", re.MULTILINE)
        or name == "monitored_barrier"
    ]


def _handing_over(original: Callable[..., Any]) -> Callable[..., Any]:
    """A ProcessGroup's method, as called from Python: its handle is Python's."""

    @functools.wraps(original)
    def method(*args: Any, **kwargs: Any) -> Any:
        if current() is None:
            return original(*args, **kwargs)
        before = (_thread.handed_over, _thread.reduction)
        _thread.handed_over, _thread.index = True, None
        _thread.reduction = reduction_among([*args, *kwargs.values()])
        try:
            work = original(*args, **kwargs)
        finally:
            _thread.handed_over, _thread.reduction = before
        if work is not None and _thread.index is not None:
            _indices[work] = _thread.index
        return work

    return method


def _through_dispatcher(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """A backend's method, as called from Python: led through a group that has this backend."""

    @functools.wraps(original)
    def method(self: Backend, *args: Any, **kwargs: Any) -> Any:
        if current() is None:
            return original(self, *args, **kwargs)
        if not hasattr(ProcessGroup, name):
            raise NotRecorded(f"{type(self).__name__}.{name}")
        return getattr(_group_of(self), name)(*args, **kwargs)

    return method


def _group_of(backend: Backend) -> ProcessGroup:
    if backend not in _groups:
        group = ProcessGroup(backend.rank(), backend.size())
        kind = ProcessGroup.BackendType.GLOO
        group._register_backend(torch.device("cpu"), kind, backend)
        group._set_default_backend(kind)
        _groups[backend] = group
    return _groups[backend]


def _keeping(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def __init__(self: Backend, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if current() is not None:
            _kept.append(self)

    return __init__


def _expect(recorder: Recorder, index: int, work: Work) -> None:
    """Let the call be finished when its handle is."""
    try:
        future = _get_future(work)
    except RuntimeError:  # messages between two ranks have none
        return
    recorder.expect(index, future)


def _noticing(index: int | None, wait: Callable[[], Any]) -> Any:
    recorder = current()
    if recorder is None or index is None:
        return wait()
    recorder.wait(index)
    result = wait()
    recorder.finish(index)
    return result


_get_future, _monitored_barrier = Work.get_future, Backend.monitored_barrier


def _waiting(original: Callable[..., bool]) -> Callable[..., bool]:
    @functools.wraps(original)
    def wait(self: Work, *args: Any, **kwargs: Any) -> bool:
        return _noticing(_indices.get(self), lambda: original(self, *args, **kwargs))

    return wait


def _asking(original: Callable[[Work], bool]) -> Callable[[Work], bool]:
    @functools.wraps(original)
    def is_completed(self: Work) -> bool:
        done = original(self)
        if done and (recorder := current()) is not None and self in _indices:
            recorder.finish(_indices[self])
        return done

    return is_completed


def _with_future(original: Callable[[Work], torch.futures.Future]) -> Callable:
    @functools.wraps(original)
    def get_future(self: Work) -> torch.futures.Future:
        future = original(self)
        if (recorder := current()) is not None and self in _indices:
            recorder.expect(_indices[self], future)
        return future

    return get_future
