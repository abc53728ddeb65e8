"""Every call of torch.distributed is recorded before it begins and when it ends.

Recorded is what passes PyTorch's dispatcher: before each operator of its namespace "c10d" comes a
kernel that writes the ledger and goes on to the original. The process groups are PyTorch's own. So
a call is in the ledger under whatever name it was made, from Python or from C++ (see `operations`),
and behaves as it does without. An operator that a newer PyTorch may have and `operations` does not
know raises `NotRecorded`.

Beside the dispatcher there is a backend used by itself (`group._get_backend(device)`, or one made
by hand): its methods are led to the dispatcher. And the handles: a call that came from Python is
complete when the rank notices it on the handle (`wait`, `is_completed`, `get_future`), one from C++
when it is.

It begins when a recorder is installed. Until then all costs one comparison.
"""

import functools
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch._C import DispatchKey
from torch._C._distributed_c10d import Backend, ProcessGroup, Work

from hpml.ranks.rank.operations import OPERATIONS, describe, flat, kept_bytes, reduction_among
from hpml.ranks.rank.recorder import Recorder, current

NAMESPACE, FUNCTIONAL = "c10d", "_c10d_functional"


class NotRecorded(RuntimeError):
    """This PyTorch has a way to communicate that the ledger does not know."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name} cannot be recorded in a launch: this version of the course does not know it; "
            "use another collective of torch.distributed"
        )


class _Thread(threading.local):
    """Per-thread context of the call being dispatched."""

    handed_over = False  # the handle goes to Python, where its methods are recorded
    reduction = ""  # "sum"
    made: list[int] | None = None  # the ledger's indices of the calls, where somebody asks


_thread = _Thread()


@contextmanager
def _on_its_way_down(handed_over: bool, reduction: str) -> Iterator[list[int]]:
    """Yields what will be the ledger's indices of the calls that are made meanwhile."""
    before = (_thread.handed_over, _thread.reduction, _thread.made)
    made: list[int] = []
    _thread.handed_over, _thread.reduction, _thread.made = handed_over, reduction, made
    try:
        yield made
    finally:
        _thread.handed_over, _thread.reduction, _thread.made = before


_libraries: list[torch.library.Library] = []  # as long as one lives, its operators are in force
_indices: WeakKeyDictionary[Work, int] = WeakKeyDictionary()  # of handles that Python holds
_results: dict[int, int] = {}  # of functional collectives, by where the result's elements are
_members: WeakKeyDictionary[ProcessGroup, tuple[int, ...]] = WeakKeyDictionary()  # global ranks
_groups: WeakKeyDictionary[Backend, ProcessGroup] = WeakKeyDictionary()  # of backends by themselves
# Never destroyed: a Gloo backend's destructor waits for its threads with the interpreter's lock
# held, while one of them may need that lock to record that a call is complete.
_kept: list[Backend] = []


def prepare() -> None:
    """Put kernels and methods in place, once in a process. Takes 10 ms: before ranks are forked.

    Until `recorder.install` they do what they always did.
    """
    if _libraries:
        return
    _replace(NAMESPACE, _operator)
    _replace(FUNCTIONAL, _functional)
    for name in communicating(ProcessGroup):
        setattr(ProcessGroup, name, _handing_over(getattr(ProcessGroup, name)))
    for name in communicating(Backend):
        setattr(Backend, name, _through_dispatcher(name, getattr(Backend, name)))
    _wrap(ProcessGroup, "split_group", _splitting)
    if dist.is_gloo_available():
        _wrap(dist.ProcessGroupGloo, "__init__", _keeping)
    _wrap(Work, "wait", _waiting)
    _wrap(Work, "is_completed", _asking)
    _wrap(Work, "get_future", _with_future)


def _wrap(owner: type, name: str, wrapper: Callable[[Any], Callable[..., Any]]) -> None:
    setattr(owner, name, wrapper(getattr(owner, name)))


def _replace(namespace: str, replacement: Callable[..., Callable]) -> None:
    """Record the operators of `namespace` that get to know which process group they are for.

    The kernel is registered where PyTorch's dispatcher selects the kind of device, the last stop
    before the original kernels, which every call makes.
    """
    library = torch.library.Library(namespace, "IMPL")
    _libraries.append(library)
    for full_name in torch._C._dispatch_get_all_op_names():
        space, _, name = full_name.partition("::")
        if space != namespace:
            continue
        operator = getattr(getattr(torch.ops, namespace), name).default
        names = [one.name for one in operator._schema.arguments]
        if not {"process_group", "group_name"}.isdisjoint(names) or name == "wait_tensor":
            kernel = replacement(name, names, operator)
            library.impl(name, kernel, "BackendSelect", with_keyset=True)


def _go_on(
    operator: torch._ops.OpOverload, keys: torch._C.DispatchKeySet, *values: Any, **named: Any
) -> Any:
    """Call the original kernel. Other threads may run meanwhile: it may wait for one of Gloo's,
    which may wait for the interpreter's lock."""
    return operator.redispatch(keys.remove(DispatchKey.BackendSelect), *values, **named)


def _operator(name: str, names: list[str], operator: torch._ops.OpOverload) -> Callable[..., Any]:
    def run(keys: torch._C.DispatchKeySet, *values: Any) -> Any:
        recorder = current()
        if recorder is None or keys.has(DispatchKey.Meta):  # tensors without elements
            return _go_on(operator, keys, *values)
        if name not in OPERATIONS:
            raise NotRecorded(f"{NAMESPACE}::{name}")
        arguments = dict(zip(names, values, strict=False))  # without those that have their default
        group = ProcessGroup.unbox(arguments["process_group"])
        ranks = global_ranks(group)
        call = describe(name, arguments, ranks, _thread.reduction)
        kept = kept_bytes(name, arguments, group.rank(), len(ranks))
        index = recorder.enter(
            call.operation,
            ranks,
            call.tensors,
            call.reduction,
            root=call.root,
            peer=call.peer,
            tag=call.tag,
            kept=kept,
        )
        if _thread.made is not None:
            _thread.made.append(index)
        handed_over = _thread.handed_over
        if name == "monitored_barrier_":  # the one that waits itself, and returns no handle
            return _noticing(index, lambda: _go_on(operator, keys, *values))
        result = _go_on(operator, keys, *values)
        if not handed_over:
            boxed = result[-1] if isinstance(result, tuple) else result
            _expect(recorder, index, Work.unbox(boxed))
        return result

    return run


def _functional(name: str, names: list[str], operator: torch._ops.OpOverload) -> Callable[..., Any]:
    """A functional collective. What it reduces by is a word here, and cannot be read further on;
    and its result, not a handle, is what a rank waits for."""

    def run(keys: torch._C.DispatchKeySet, *values: Any, **named: Any) -> Any:
        if name == "wait_tensor":
            index = _results.pop(values[0].data_ptr(), None)
            return _noticing(index, lambda: _go_on(operator, keys, *values))
        reduction = values[names.index("reduce_op")] if "reduce_op" in names else ""
        with _on_its_way_down(handed_over=False, reduction=reduction) as made:
            result = _go_on(operator, keys, *values, **named)
        if made:
            places = [tensor.data_ptr() for tensor in flat(result)]
            each = made if len(made) == len(places) else made[-1:] * len(places)
            _results.update(zip(places, each, strict=True))
        return result

    return run


def global_ranks(group: ProcessGroup) -> tuple[int, ...]:
    """The group's members, in its order. Of a group made by hand only how many there are is known:
    they count as 0, 1, 2 and so on."""
    if group not in _members:
        _members[group] = _looked_up(group)
    return _members[group]


def _looked_up(group: ProcessGroup) -> tuple[int, ...]:
    for device in group._device_types:
        options = getattr(group._get_backend(device), "options", None)
        ranks = tuple(getattr(options, "global_ranks_in_group", None) or ())
        if len(ranks) == group.size():  # one that was merged has those of what it was made from
            return ranks
    return tuple(range(group.size()))


def _splitting(original: Callable[..., ProcessGroup]) -> Callable[..., ProcessGroup]:
    @functools.wraps(original)
    def split_group(self: ProcessGroup, ranks: list[int], *args: Any, **kwargs: Any) -> Any:
        parents = global_ranks(self)  # PyTorch 2.13 gives it those of the part
        group = original(self, ranks, *args, **kwargs)
        if group is not None:
            _members[group] = tuple(parents[rank] for rank in sorted(ranks))
            _kept.extend(group._get_backend(device) for device in group._device_types)
        return group

    return split_group


def index_of(work: Work) -> int:
    """The ledger's index of the call that a group's method has started from Python."""
    return _indices[work]


def communicating(kind: type) -> list[str]:
    """The names of a class's methods that start a call: they return a handle, all but one. Where
    several calls are put together (`_end_coalescing`), each was started by its own."""
    return [
        name
        for name, method in vars(kind).items()
        if re.search(r"-> c10d::Work$", getattr(method, "__doc__", None) or "", re.MULTILINE)
        or name == "monitored_barrier"
        if name != "_end_coalescing"
    ]


def _handing_over(original: Callable[..., Any]) -> Callable[..., Any]:
    """A ProcessGroup's method, as called from Python: its handle is Python's."""

    @functools.wraps(original)
    def method(*args: Any, **kwargs: Any) -> Any:
        if current() is None:
            return original(*args, **kwargs)
        reduction = reduction_among([*args, *kwargs.values()])
        with _on_its_way_down(handed_over=True, reduction=reduction) as made:
            work = original(*args, **kwargs)
        if work is not None and made:
            _indices[work] = made[-1]
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
        # PyTorch's own types have only its other constructor
        group = ProcessGroup(backend.rank(), backend.size())  # type: ignore[call-arg]
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


_get_future = Work.get_future
wait_unrecorded = Work.wait


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
