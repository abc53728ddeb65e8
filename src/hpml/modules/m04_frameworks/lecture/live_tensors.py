"""Which tensors are alive in each step of a forward and a backward pass: counted, not measured.

A step is one operator that PyTorch dispatches; views make nothing and are not steps. A tensor's
bytes are those of its storage, from the operator that made it to the last one before it is freed.
The same code makes the same recording each time, also on the device `meta`, where tensors have
shapes and no memory. What an operator takes and gives back while it runs (a workspace) is not seen.
"""

import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# Of tensors, from those that are there all the time to those that are soon gone
KINDS = ("weights and batch", "gradients", "kept for backward", "computed again", "temporary")


@dataclass(frozen=True)
class LiveTensor:
    """A storage: `nbytes` from step `born` (-1: before the first) to step `last`, both included."""

    operator: str  # that made it; "" if it was there before
    nbytes: int
    born: int
    last: int
    kind: str  # one of KINDS


@dataclass(frozen=True)
class Recording:
    """A forward and a backward pass: the operators by step, and every tensor."""

    operators: tuple[str, ...]
    turn: int  # the first step of backward
    tensors: tuple[LiveTensor, ...]

    def live(self, *kinds: str) -> list[int]:
        """The bytes that are alive in each step, of these kinds or of all."""
        found = [0] * len(self.operators)
        for one in self.tensors:
            if not kinds or one.kind in kinds:
                for step in range(max(0, one.born), one.last + 1):
                    found[step] += one.nbytes
        return found

    @property
    def peak(self) -> int:
        """Bytes at the step with the most of them."""
        return max(self.live())

    @property
    def peak_step(self) -> int:
        live = self.live()
        return live.index(max(live))

    def never_freed(self) -> list[int]:
        """The bytes that would be alive in each step if nothing were freed."""
        found = [0] * len(self.operators)
        for one in self.tensors:
            for step in range(max(0, one.born), len(found)):
                found[step] += one.nbytes
        return found

    def total(self, kind: str) -> int:
        """Bytes of all tensors of a kind, whenever they are alive."""
        return sum(one.nbytes for one in self.tensors if one.kind == kind)


def record(forward: Callable[[], torch.Tensor], given: Iterable[torch.Tensor]) -> Recording:
    """Run `forward()`, which returns a loss, and its `backward()`, and record what is alive when.

    `given` are tensors that exist before: weights, buffers, the batch. Kept for backward is what
    forward has made and is alive when backward begins. Raises ValueError where one of `given` has a
    gradient already.
    """
    given = list(given)
    if any(one.grad is not None for one in given):
        raise ValueError("a tensor has a gradient already: call zero_grad() first")
    recorder = _Recorder(given)
    with recorder:
        loss = forward()
        recorder.turns()
        loss.backward()
    gradients = {one.grad.untyped_storage()._cdata for one in given if one.grad is not None}
    return recorder.recording(gradients)


class _Recorder(TorchDispatchMode):
    """Notes each new storage, and the step in which it is freed."""

    def __init__(self, given: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self._operators: list[str] = []
        self._turn = 0
        # By the address of a storage that exists: its row, and a reference that ends with it
        self._alive: dict[int, tuple[int, weakref.ref]] = {}
        self._rows: list[dict[str, Any]] = []
        for tensor in given:
            self._take(tensor, "")

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        result = func(*args, **kwargs or {})
        returns = func._schema.returns
        if returns and all(one.alias_info and not one.alias_info.is_write for one in returns):
            return result  # a view
        self._operators.append(func.overloadpacket.__name__)
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self._take(tensor, self._operators[-1])
        return result

    def turns(self) -> None:
        """Forward is over."""
        self._turn = len(self._operators)
        for row, _ in self._alive.values():
            self._rows[row]["kept"] = self._rows[row]["born"] >= 0

    def _take(self, tensor: torch.Tensor, operator: str) -> None:
        storage = tensor.untyped_storage()
        place = storage._cdata
        if place in self._alive:
            return
        row = len(self._rows)
        self._rows.append(
            {
                "operator": operator,
                "nbytes": storage.nbytes(),
                "born": len(self._operators) - 1 if operator else -1,
                "last": None,
                "kept": False,
                # Backward runs with gradients off; what it computes again, with gradients on
                "again": torch.is_grad_enabled() and torch._C._current_graph_task_id() != -1,
            }
        )
        self._alive[place] = row, weakref.ref(storage, lambda _: self._freed(place))

    def _freed(self, place: int) -> None:
        row, _ = self._alive.pop(place)
        self._rows[row]["last"] = len(self._operators) - 1

    def recording(self, gradients: set[int]) -> Recording:
        """What was recorded. `gradients` are addresses of storages that are alive."""
        of_gradients = {self._alive[place][0] for place in gradients}
        tensors = []
        for number, row in enumerate(self._rows):
            kind = "temporary"
            for name, holds in (
                ("weights and batch", row["born"] < 0),
                ("gradients", number in of_gradients),
                ("kept for backward", row["kept"]),
                ("computed again", row["again"]),
            ):
                if holds:
                    kind = name
                    break
            last = len(self._operators) - 1 if row["last"] is None else row["last"]
            tensors.append(LiveTensor(row["operator"], row["nbytes"], row["born"], last, kind))
        return Recording(tuple(self._operators), self._turn, tuple(tensors))


def offsets(tensors: Sequence[LiveTensor]) -> list[int]:
    """A place in one block of memory for each: no two that are alive at a time overlap.

    First those that are there from the start; then the largest first, each at the lowest place
    that is free for as long as it lives: greedy by size (Pisarchyk and Lee 2020, Efficient Memory
    Management for Deep Neural Net Inference, arXiv:2001.03288). All lives must be known beforehand,
    as they are where a graph is.
    """
    found = [0] * len(tensors)
    placed: list[int] = []
    for number in sorted(
        range(len(tensors)), key=lambda n: (tensors[n].born >= 0, -tensors[n].nbytes, n)
    ):
        one = tensors[number]
        at = 0
        for other in sorted(placed, key=lambda n: found[n]):
            beside = tensors[other]
            if beside.born <= one.last and one.born <= beside.last:
                if found[other] - at >= one.nbytes:
                    break
                at = max(at, found[other] + beside.nbytes)
        found[number] = at
        placed.append(number)
    return found
