"""How many bytes of tensors exist in a rank, by what they are for.

Counted are the storages that exist, from the operator that made them to the moment they are freed.
The mode sees every operator of the rank's main thread, of forward, backward and optimizer. What a
storage is for:

- parameters: of an nn.Parameter, from the moment it is made; a shard is one, and so is what is
  gathered of it
- gradients: in a parameter's `.grad`
- optimizer states: in `.state` of a torch.optim.Optimizer
- activations: made from parameters and other activations, in a forward pass or when one is
  computed again. Those that live on are kept for backward
- other: all else, as inputs, buffers of collectives, gradients on their way through backward

See PyTorch's own torch.distributed._tools.mem_tracker, which counts in the same way and has to be
given the modules beforehand.
"""

import mmap
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass

from hpml.ranks.evidence import KINDS

_PARAMETERS, _GRADIENTS, _STATES, _ACTIVATIONS, _OTHER = range(len(KINDS))
_BYTES = 8 * 3 * len(KINDS)
_OPERATOR = 64  # bytes of the name of the operator that is under way


class Page:
    """Counters in memory that the rank shares with its supervisor, which can read them when the
    rank has been killed. Made before the fork. They are the rank's own word."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)
        view = memoryview(self._memory)[: _BYTES + 8].cast("q")
        self._line = view[-1:]
        kinds = len(KINDS)
        self.now, self.at_peak, self.highest = (
            view[start : start + kinds] for start in range(0, 3 * kinds, kinds)
        )

    def begins(self, operator: str, line: int | None) -> None:
        """In the rank: the operator that begins, and the line that led there."""
        self._line[0] = line or 0
        name = operator.encode()[: _OPERATOR - 1]
        self._memory[_BYTES + 8 : _BYTES + 8 + len(name) + 1] = name + b"\0"

    def read(self) -> dict[str, Any]:
        """In the supervisor: bytes at the peak and each kind's own peak, by kind; the last
        operator, and its line."""
        # A new peak is noted when it is over
        at_peak = max(list(self.at_peak), list(self.now), key=sum)
        name = self._memory[_BYTES + 8 : _BYTES + 8 + _OPERATOR].partition(b"\0")[0]
        return {
            "at_peak": at_peak,
            "highest": list(self.highest),
            "operator": name.decode("ascii", "replace"),
            "line": self._line[0] or None,
        }


class Tracker(TorchDispatchMode):
    """Counts into `page` from `install` on, what the calling thread makes. With `line`, which finds
    the line of the learner's code that is running, each operator is noted as it begins."""

    def __init__(self, page: Page, line: Callable[[], int | None] | None = None) -> None:
        super().__init__()
        self._page, self._line = page, line
        # By the address of a storage that exists: kind, bytes, and a reference that ends with it
        self._held: dict[int, list[Any]] = {}
        # Those whose gradients are looked for. A distributed one is reached by its module, since
        # torch refuses to move one that is referred to weakly (`to_empty`)
        self._parameters: dict[int, weakref.ref] = {}
        self._modules: dict[int, weakref.ref] = {}
        self._stepping: torch.optim.Optimizer | None = None
        self._total = self._peak = 0
        self._rising = False  # the total is a peak that is not noted yet
        self._lock = threading.RLock()  # a storage may be freed by any thread, at any moment

    def install(self) -> None:
        """Count from now on, until the process ends."""
        made = nn.Parameter.__new__

        def making(*given: Any, **named: Any) -> Any:
            parameter = made(*given, **named)
            self._parameter(parameter)
            return parameter

        # fully_shard puts its own in the place of those that are registered
        setattr(nn.Parameter, "__new__", staticmethod(making))  # noqa: B010
        register_module_parameter_registration_hook(self._registered)
        register_optimizer_step_pre_hook(self._before_step)
        register_optimizer_step_post_hook(self._after_step)
        resize = torch.UntypedStorage.resize_

        def resizing(storage: torch.UntypedStorage, size: int) -> Any:
            result = resize(storage, size)
            self._resized(storage)
            return result

        # How fully_shard frees what it has gathered
        setattr(torch.UntypedStorage, "resize_", resizing)  # noqa: B010
        self.__enter__()

    def begin_again(self) -> None:
        """From now on the peaks are those of another run."""
        with self._lock:
            self._peak, self._rising = self._total, False
            self._page.at_peak[:] = self._page.now
            self._page.highest[:] = self._page.now

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        given = [*args, *kwargs.values()] if kwargs else args
        if any(hasattr(one, "__tensor_flatten__") for one in types):
            # DTensor and its like: they come back with what they are made of
            for one in _tensors(given):
                if isinstance(one, nn.Parameter):
                    self._parameter(one)
            return NotImplemented
        if self._line is not None:
            self._page.begins(func.__name__, self._line())
        result = func(*args, **kwargs or {})
        of = set()  # the kinds of what it was made from
        for one in _tensors(given):
            of.add(self._take(one, _OTHER))
            if isinstance(one, nn.Parameter):
                self._parameter(one)
                of.add(_PARAMETERS)
        kind = _ACTIVATIONS if self._is_forward(of) else _OTHER
        for one in _tensors(result if isinstance(result, list | tuple) else (result,)):
            self._take(one, kind)
        if self._rising:
            self._find_gradients()
            if self._stepping is not None:
                self._find_states(self._stepping)
        return result

    def _is_forward(self, of: set[int]) -> bool:
        """Whether what is made from these kinds now is made in a forward pass."""
        if torch.is_grad_enabled():
            return not of.isdisjoint((_PARAMETERS, _ACTIVATIONS))
        # The forward of an autograd.Function runs without gradients, as backward and optimizers do.
        in_backward = torch._C._current_graph_task_id() != -1
        return _ACTIVATIONS in of and not in_backward and self._stepping is None

    def _take(self, tensor: torch.Tensor, kind: int) -> int:
        """Count the tensor's storage, if it is a new one, as `kind`; returns what it counts as."""
        try:
            storage = tensor.untyped_storage()
        except NotImplementedError:  # a sparse tensor, which consists of others
            return _OTHER
        place = storage._cdata
        held = self._held.get(place)
        if held is not None:
            return held[0]
        if storage.device.type == "meta":
            return kind
        nbytes = storage.nbytes()
        if nbytes and not _has_data(storage):
            return kind
        with self._lock:
            freed = weakref.ref(storage, lambda _: self._freed(place))
            self._held[place] = [kind, nbytes, freed]
            self._add(kind, nbytes)
        return kind

    def _is(self, tensor: torch.Tensor | None, kind: int) -> None:
        """From now on the tensor's storage counts as `kind`."""
        for one in _made_of(tensor):
            before = self._take(one, kind)
            held = self._held.get(one.untyped_storage()._cdata)
            if held is not None and before != kind:
                with self._lock:
                    held[0] = kind
                    self._page.now[before] -= held[1]
                    self._page.now[kind] += held[1]
                    self._raise(kind)

    def _add(self, kind: int, nbytes: int) -> None:
        self._page.now[kind] += nbytes
        self._raise(kind)
        self._total += nbytes
        if self._total > self._peak:
            self._peak, self._rising = self._total, True

    def _raise(self, kind: int) -> None:
        if self._page.now[kind] > self._page.highest[kind]:
            self._page.highest[kind] = self._page.now[kind]

    def _freed(self, place: int) -> None:
        with self._lock:
            self._note_peak()
            kind, nbytes, _ = self._held.pop(place)
            self._page.now[kind] -= nbytes
            self._total -= nbytes

    def _resized(self, storage: torch.UntypedStorage) -> None:
        with self._lock:
            held = self._held.get(storage._cdata)
            if held is None:
                return
            more = storage.nbytes() - held[1]
            if more < 0:
                self._note_peak()
            held[1] += more
            self._add(held[0], more)

    def _note_peak(self) -> None:
        """Before the total falls: note it, if it is a new peak. No tensor is looked at here: it may
        be the one that is being freed."""
        if self._rising:
            self._rising = False
            self._page.at_peak[:] = self._page.now

    def _registered(self, module: nn.Module, _name: str, _parameter: Any) -> None:
        _remember(module, self._modules)

    def _parameter(self, parameter: nn.Parameter) -> None:
        self._is(parameter, _PARAMETERS)
        if not is_traceable_wrapper_subclass(parameter):
            _remember(parameter, self._parameters)
        self._is(parameter.grad, _GRADIENTS)

    def _find_gradients(self) -> None:
        found = [reference() for reference in list(self._parameters.values())]
        for reference in list(self._modules.values()):
            if (module := reference()) is not None:
                found += module._parameters.values()
        for parameter in found:
            if parameter is not None and parameter.grad is not None:
                self._is(parameter.grad, _GRADIENTS)

    def _find_states(self, optimizer: torch.optim.Optimizer) -> None:
        for state in list(optimizer.state.values()):
            for value in list(state.values()) if isinstance(state, dict) else ():
                self._is(value, _STATES)

    def _before_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        self._stepping = optimizer
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self._parameter(parameter)

    def _after_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        self._stepping = None
        self._find_states(optimizer)


def _remember(one: Any, among: dict[int, weakref.ref]) -> None:
    """Until it ends."""
    number = id(one)
    if number not in among:
        among[number] = weakref.ref(one, lambda _: among.pop(number, None))


def _tensors(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """Those among an operator's arguments or results, and in lists there."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            for item in value:
                if isinstance(item, torch.Tensor):
                    yield item


def _has_data(storage: torch.UntypedStorage) -> bool:
    """Whether it has memory; that of a tensor which only wraps others has none."""
    try:
        return storage.data_ptr() != 0
    except RuntimeError:
        return False


def _made_of(tensor: Any) -> list[torch.Tensor]:
    """The tensors with storages of their own that one consists of: a DTensor has its local one."""
    if not isinstance(tensor, torch.Tensor):
        return []
    if not is_traceable_wrapper_subclass(tensor):
        return [tensor] if tensor.layout is torch.strided else []
    names, _ = tensor.__tensor_flatten__()
    return [part for name in names for part in _made_of(getattr(tensor, name))]
